"""A part of a bulk write becomes one staged file, or is refused for what is in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bulk import Row, rows_of
from headwater.disk import RealDisk
from headwater.stream.bulk.staged_part import BulkRefusedError, StagedPart
from headwater.stream.publishing.offered import OfferedRun
from headwater.table.parquet import MAX_GROUP_ROWS
from headwater.table.staged import read_staged
from headwater.table.staging import LocalStaging

HEADERS = b"NATS/1.0\r\nColour: red\r\n\r\n"


def part_in(directory: Path, subjects: Sequence[str] = ("orders.*", "odd.>")) -> StagedPart:
    return StagedPart(LocalStaging(directory / "staging", RealDisk(sync=False)), subjects, "none", 1_000)


def test_a_part_is_a_file_with_its_messages_and_sums(tmp_path: Path) -> None:
    part = part_in(tmp_path)
    rows: list[Row] = [("orders.a", b"1"), ("orders.b", b"22", HEADERS), ("odd.\ufffd.x", b"")]
    part.append(rows_of(rows[:1]))
    part.append(rows_of([]))
    part.append(rows_of(rows[1:]))
    file = part.finish()
    path = tmp_path / "staging" / file.adopted.name
    (columns,) = read_staged(path)
    run = OfferedRun.of(columns)
    assert [subject.decode() for subject in run.subjects] == [row[0] for row in rows]
    assert list(run.datas) == [row[1] for row in rows]
    assert list(run.headers) == [b"", HEADERS, b""]
    assert list(run.timestamps) == [1_000, 1_001, 1_002]
    assert (file.adopted.rows, file.adopted.with_headers, file.largest) == (3, 1, len(HEADERS) + 2)
    assert file.adopted.subjects[b"orders.b"] == (1, 1)
    assert not file.is_ruled
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_many_messages_fill_several_row_groups(tmp_path: Path) -> None:
    part = part_in(tmp_path)
    for start in range(0, 2 * MAX_GROUP_ROWS + 100, 5_000):
        part.append(rows_of([(f"orders.{n % 3}", b"%d" % n) for n in range(start, start + 5_000)]))
    file = part.finish()
    found = [d for c in read_staged(tmp_path / "staging" / file.adopted.name) for d in OfferedRun.of(c).datas]
    assert found == [b"%d" % n for n in range(file.adopted.rows)]


@pytest.mark.parametrize(
    "row",
    [
        ("other", b""),
        ("orders.a.b", b""),
        ("orders.*", b""),
        ("orders. ", b""),
        ("odd.", b""),
        ("", b""),
        ("orders." + "x" * 4096, b""),
        ("orders.a", b"", b"no headers"),
        ("orders.a", b"", b"NATS/1.0\r\nnothing\r\n\r\n"),
        ("orders.a", b"", b"NATS/1.0\r\nx: " + b"y" * 65_536 + b"\r\n\r\n"),
    ],
)
def test_messages_that_may_not_be_in_the_stream_are_refused(tmp_path: Path, row: Row) -> None:
    part = part_in(tmp_path)
    with pytest.raises(BulkRefusedError):
        part.append(rows_of([("orders.a", b"good"), row]))
    part.abandon()
    assert not list((tmp_path / "staging").iterdir())


def test_a_subject_must_be_text(tmp_path: Path) -> None:
    rows = replace(rows_of([("orders.a", b"")]), subjects=[b"orders.\xff"])
    with pytest.raises(BulkRefusedError, match="not UTF-8"):
        part_in(tmp_path).append(rows)


def test_headers_that_rules_look_at_are_noticed(tmp_path: Path) -> None:
    part = part_in(tmp_path)
    part.append(rows_of([("orders.a", b"", b"NATS/1.0\r\nNats-TTL: 1s\r\n\r\n")]))
    assert part.finish().is_ruled


def test_a_part_without_messages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BulkRefusedError, match="without messages"):
        part_in(tmp_path).finish()


def test_an_abandoned_part_leaves_nothing(tmp_path: Path) -> None:
    part = part_in(tmp_path)
    part.append(rows_of([("orders.a", b"x")] * MAX_GROUP_ROWS))
    part.abandon()
    assert not list((tmp_path / "staging").iterdir())


def test_messages_wait_for_a_full_row_group_unless_they_are_written_at_once(tmp_path: Path) -> None:
    part = part_in(tmp_path)
    part.append(rows_of([("orders.a", b"x" * 100), ("orders.b", b"")]))
    assert part.held_bytes >= 100
    assert part.subject_count == 2
    part.append(rows_of([("orders.b", b"y")]), at_once=True)
    assert part.held_bytes == 0
    assert part.finish().adopted.rows == 3
