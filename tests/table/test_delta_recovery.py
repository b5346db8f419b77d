"""A damaged Delta log is refused by name; what a crash tore is moved away."""

from __future__ import annotations

import json
import random
import re
from errno import EIO
from pathlib import Path

import pytest

from headwater.disk import RealDisk
from headwater.errors import CorruptionError, DiskError, NewerFormatError
from headwater.model.sealed import seal
from headwater.table import Table, schema
from headwater.table.commit_file import CHECKSUM, checkpoint_name, checksum, commit_name
from headwater.table.delta_recovery import SUMS, TORN, has_log, has_torn, read_sums
from rounds import choose_seed
from table.samples import columns, everything

DISK = RealDisk(sync=False)


def made(directory: Path, commits: int) -> Table:
    table = Table.open(directory, DISK)
    for number in range(commits):
        table.commit(add=[table.write(columns([number + 1]))], transactions={"fold": number + 1})
        table.maintain()
    return table


def flip(path: Path, at: int = -20) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x10
    path.write_bytes(content)


def test_a_damaged_commit_that_is_not_the_newest_is_refused(tmp_path: Path) -> None:
    made(tmp_path, 3)
    flip(tmp_path / "_delta_log" / commit_name(2))
    with pytest.raises(CorruptionError, match="headwater store repair"):
        Table.open(tmp_path, DISK)
    assert not (tmp_path / "torn").exists()


def test_a_missing_commit_is_refused(tmp_path: Path) -> None:
    made(tmp_path, 3)
    (tmp_path / "_delta_log" / commit_name(2)).unlink()
    with pytest.raises(CorruptionError, match=r"missing.*headwater store repair"):
        Table.open(tmp_path, DISK)


def test_a_newest_commit_that_is_durable_is_not_written_again(tmp_path: Path) -> None:
    made(tmp_path, 3)
    newest = tmp_path / "_delta_log" / commit_name(3)
    before = newest.stat()
    disk = RealDisk(sync=True)
    assert len(Table.open(tmp_path, disk).files) == 3
    after = newest.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


class _ForgetfulDisk(RealDisk):
    """A disk whose cache holds more than its medium, as after a failed sync."""

    def __init__(self, on_medium: bytes | None) -> None:
        super().__init__(sync=True)
        self._on_medium = on_medium

    def uncache(self, path: Path) -> None:
        if self._on_medium is None:
            raise DiskError(path, "read", EIO)
        path.write_bytes(self._on_medium)


@pytest.mark.parametrize("on_medium", [b"", b"{", None], ids=["nothing", "half", "unreadable"])
def test_a_newest_commit_that_is_only_in_the_cache_is_written_again(
    tmp_path: Path, on_medium: bytes | None
) -> None:
    made(tmp_path, 3)
    newest = tmp_path / "_delta_log" / commit_name(3)
    content = newest.read_bytes()
    assert len(Table.open(tmp_path, _ForgetfulDisk(on_medium)).files) == 3
    assert newest.read_bytes() == content


def test_a_table_whose_log_is_gone_is_not_begun_again_over_its_files(tmp_path: Path) -> None:
    made(tmp_path, 1)
    for path in (tmp_path / "_delta_log").iterdir():
        path.unlink()
    with pytest.raises(CorruptionError, match="it is missing, but there are data files"):
        Table.open(tmp_path, DISK)


def test_while_anything_is_torn_nothing_is_swept_before_the_stream_is_settled(tmp_path: Path) -> None:
    made(tmp_path, 2)
    flip(tmp_path / "_delta_log" / commit_name(2))
    table = Table.open(tmp_path, DISK)
    assert [file.last_seq for file in table.files] == [1]
    assert [each.file.last_seq for each in table.unreferenced()] == [2]
    assert table.sweep(0, 0) == 0
    table.settle()
    assert table.sweep(0, 0) == 1


def test_nothing_is_swept_while_a_file_is_missing(tmp_path: Path) -> None:
    table = made(tmp_path, 2)
    stray = table.write(columns([9]))
    table.discard([stray])
    (tmp_path / table.files[0].path).rename(tmp_path / "away")
    assert {file.last_seq for file in table.missing} == {1}
    assert table.sweep(0, 0) == 0
    (tmp_path / "away").rename(tmp_path / table.files[0].path)
    assert table.sweep(0, 0) == 1


def test_a_flipped_bit_of_a_checkpoint_or_its_pointer_changes_no_table(tmp_path: Path) -> None:
    table = made(tmp_path, 51)
    expected = everything(table)
    commits = tmp_path / "_delta_log"
    assert read_sums(tmp_path, DISK).version == 50
    seed = choose_seed()
    chance = random.Random(seed)
    for name in (checkpoint_name(50), "_last_checkpoint"):
        whole = (commits / name).read_bytes()
        pointer = (commits / "_last_checkpoint").read_bytes()
        for _ in range(12):
            flip(commits / name, chance.randrange(len(whole)))
            assert everything(Table.open(tmp_path, DISK)) == expected
            (commits / name).write_bytes(whole)
            (commits / "_last_checkpoint").write_bytes(pointer)


def test_damaged_checksums_of_a_checkpoint_cost_only_the_check(tmp_path: Path) -> None:
    table = made(tmp_path, 50)
    (tmp_path / SUMS).write_bytes(b"{")
    assert everything(Table.open(tmp_path, DISK)) == everything(table)


def as_newer(directory: Path) -> None:
    """Have the first commit name the next format, as a later release would write it."""
    first = directory / "_delta_log" / commit_name(0)
    info, *actions = [json.loads(line) for line in first.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["configuration"][schema.VERSION_KEY] = str(schema.VERSION + 1)
    info["commitInfo"][CHECKSUM] = checksum(actions)
    first.write_text("".join(json.dumps(line) + "\n" for line in (info, *actions)))


def commit_more(directory: Path, commits: int) -> None:
    """Commit like a release with the next format."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "VERSION", schema.VERSION + 1)
        table = Table.open(directory, DISK)
        for number in range(commits):
            table.commit(add=[table.write(columns([number + 2]))])
            table.maintain()


def contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("commits", [1, schema.CHECKPOINT_COMMITS + 1], ids=["JSON", "checkpoint"])
def test_a_table_of_a_newer_format_is_refused_and_not_changed(tmp_path: Path, commits: int) -> None:
    made(tmp_path, 1)
    as_newer(tmp_path)
    commit_more(tmp_path, commits - 1)
    # A later release may have another checksum, and leaves files of its own.
    newest = sorted((tmp_path / "_delta_log").glob("*.json"))[-1]
    newest.write_bytes(re.sub(rb'("headwater.crc32":")[0-9a-f]{8}', rb"\g<1>00000000", newest.read_bytes()))
    (tmp_path / "_delta_log" / "x.tmp").write_bytes(b"")
    before = contents(tmp_path)
    with pytest.raises(
        NewerFormatError, match=r"has version 3, this Headwater knows up to 2: .*newer release"
    ):
        Table.open(tmp_path, DISK)
    assert contents(tmp_path) == before


def test_the_checkpoint_names_the_format_where_the_checksums_are_lost(tmp_path: Path) -> None:
    made(tmp_path, 1)
    as_newer(tmp_path)
    commit_more(tmp_path, 2 * schema.CHECKPOINT_COMMITS)
    (tmp_path / SUMS).unlink()
    assert not (tmp_path / "_delta_log" / commit_name(0)).exists()
    with pytest.raises(NewerFormatError, match="has version 3"):
        Table.open(tmp_path, DISK)


def test_checksums_of_a_newer_version_are_refused(tmp_path: Path) -> None:
    made(tmp_path, 1)
    (tmp_path / SUMS).write_bytes(seal({}, 2))
    with pytest.raises(NewerFormatError, match="has version 2"):
        Table.open(tmp_path, DISK)


def test_a_flipped_bit_in_the_first_commit_is_no_newer_format(tmp_path: Path) -> None:
    made(tmp_path, 2)
    first = tmp_path / "_delta_log" / commit_name(0)
    first.write_bytes(first.read_bytes().replace(b'"headwater.version":"2"', b'"headwater.version":"3"'))
    with pytest.raises(CorruptionError, match="its checksum does not match"):
        Table.open(tmp_path, DISK)


def test_a_table_without_the_property_is_opened(tmp_path: Path) -> None:
    made(tmp_path, 2)
    first = tmp_path / "_delta_log" / commit_name(0)
    old = re.sub(rb',"headwater.crc32":"[0-9a-f]*"', b"", first.read_bytes())
    first.write_bytes(old.replace(b',"headwater.version":"2"', b""))
    assert everything(Table.open(tmp_path, DISK)) == everything(made(tmp_path / "other", 2))


def test_a_log_whose_newest_files_were_moved_aside_is_still_one(tmp_path: Path) -> None:
    assert not has_log(tmp_path, DISK)
    (tmp_path / "_delta_log").mkdir()
    assert not has_log(tmp_path, DISK)
    (tmp_path / TORN).mkdir()
    assert not has_torn(tmp_path, DISK)
    (tmp_path / TORN / commit_name(0)).write_bytes(b"")
    assert has_torn(tmp_path, DISK)
    assert has_log(tmp_path, DISK)


def test_a_log_with_a_commit_is_one(tmp_path: Path) -> None:
    made(tmp_path, 1)
    assert has_log(tmp_path, DISK)
    assert not has_torn(tmp_path, DISK)
