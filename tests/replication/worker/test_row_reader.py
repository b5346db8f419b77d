"""Ranges read for a pipeline: record batches, and a last row."""

from __future__ import annotations

from pathlib import Path

from headwater.model import headers as header_block
from headwater.replication.work import FileRange, Work, WorkPipeline
from headwater.replication.worker.row_reader import BATCH_ROWS, RowEnd, RowReader, decode_end
from replication.works import file_of, removed_of, tail_of, work_of
from table.samples import message


def read(work: Work, *, wants_headers: bool = False) -> tuple[list[dict[str, object]], RowEnd, int]:
    batches = list(RowReader(work, wants_headers=wants_headers))
    rows = [row for batch in batches for row in batch.to_pylist()]
    return rows[:-1], decode_end(rows[-1]["__end"]), len(batches)


def test_files_and_tails_are_read_without_removed_and_unwanted_messages(tmp_path: Path) -> None:
    messages = [message(seq) for seq in range(1, 20_001)]
    work = work_of(
        stop_seq=20_010,
        files=(file_of(tmp_path, messages),),
        removed=removed_of([5]),
        tail=tail_of([message(20_001)]),
        pipeline=WorkPipeline(where="true"),
        source_header=("O", ">", ">", "I"),
    )
    rows, end, batches = read(work)
    assert [row["__seq"] for row in rows] == [seq for seq in range(1, 20_002) if seq != 5]
    assert rows[0]["payload"] == messages[0].data
    assert rows[0]["__end"] is None
    assert (end.through, end.read, end.error) == (20_010, 20_000, "")
    assert batches > 20_000 // BATCH_ROWS


def test_transforms_come_before_the_pipeline_and_the_origin_s_subject_is_kept() -> None:
    work = work_of(stop_seq=9, tail=tail_of([message(1)]), transforms=((">", "x.>"),))
    (row,), _, _ = read(work)
    assert row["__origin"] == message(1).subject.decode()
    assert row["subject"] == f"x.{row['__origin']}"


def test_headers_with_several_values_are_a_map_if_they_are_wanted() -> None:
    block = header_block.build([(b"A", b"1"), (b"A", b"\xff"), (b"Nats-Expected-Stream", b"x")])
    work = work_of(stop_seq=9, tail=tail_of([message(1)._replace(headers=block)]))
    (row,), _, _ = read(work, wants_headers=True)
    assert row["headers"] == [("A", ["1", "\ufffd"])]
    (other,), _, _ = read(work)
    assert other["headers"] is None
    assert b"Expected" not in other["__headers"]  # type: ignore[operator]


def test_a_range_that_cannot_be_read_ends_with_the_reason(tmp_path: Path) -> None:
    rows, end, _ = read(work_of(stop_seq=3, files=(FileRange(str(tmp_path / "gone"), 0, 1, 3),)))
    assert rows == []
    assert "was replaced" in end.error
