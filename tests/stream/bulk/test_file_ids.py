"""Staged files lose the messages whose id is repeated, and no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bulk import Row, rows_of
from headwater.disk import RealDisk
from headwater.stream.bulk.file_ids import identified
from headwater.stream.bulk.staged_part import StagedFile, StagedPart
from headwater.stream.publishing.offered import OfferedRun
from headwater.table.staged import read_staged
from headwater.table.staging import LocalStaging


def numbered(*ids: str) -> list[Row]:
    """Return messages with ids; their data is the place of each."""
    blocks = [f"NATS/1.0\r\nNats-Msg-Id: {each}\r\n\r\n".encode() if each else b"" for each in ids]
    return [(f"t.{place % 3}", b"%d" % place, block) for place, block in enumerate(blocks)]


class Bench:
    """A staging folder and the files in it."""

    def __init__(self, directory: Path) -> None:
        self.staging = LocalStaging(directory / "staging", RealDisk(sync=False))

    def part(self) -> StagedPart:
        return StagedPart(self.staging, ("t.>",), "none", 1_000)

    def staged(self, rows: Sequence[Row]) -> StagedFile:
        part = self.part()
        part.append(rows_of(rows))
        return part.finish()

    def identified(
        self, files: Sequence[StagedFile], is_known: Callable[[bytes], bool] = lambda message_id: False
    ) -> list[list[tuple[bytes, bytes]]]:
        """Return the id and the data of the messages of each file."""
        found = []
        for each in identified(self.staging, files, is_known, self.part):
            runs = map(OfferedRun.of, read_staged(self.staging.open(each.file.adopted.name)))
            datas = [data for run in runs for data in run.datas]
            assert each.file.adopted.rows == len(datas)
            found.append(list(zip(each.ids.ids.values(), datas, strict=True)))
        return found


def test_files_without_repeated_ids_stay_as_they_are(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    files = [bench.staged(numbered("a", "", "b")), bench.staged(numbered("", ""))]
    assert bench.identified(files) == [[(b"a", b"0"), (b"", b"1"), (b"b", b"2")], [(b"", b"0"), (b"", b"1")]]
    assert sorted(bench.staging.names()) == sorted(file.adopted.name for file in files)


def test_the_first_message_of_an_id_is_kept(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    files = [bench.staged(numbered("a", "b", "a", "")), bench.staged(numbered("b", "c", "known"))]
    found = bench.identified(files, {b"known"}.__contains__)
    assert found == [[(b"a", b"0"), (b"b", b"1"), (b"", b"3")], [(b"c", b"1")]]


def test_a_file_without_new_ids_is_left_out(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.identified([bench.staged(numbered("a", "a"))], lambda message_id: True) == []


def test_a_file_that_cannot_be_written_again_leaves_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    file = bench.staged(numbered("a", "a"))
    damaged = tmp_path / "staging" / file.adopted.name
    content = bytearray(damaged.read_bytes())
    content[10] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(Exception, match="checksum"):
        bench.identified([file])
    assert bench.staging.names() == [file.adopted.name]
