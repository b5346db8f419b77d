"""What holds for every run of messages: just offered, a batch of the log, and a row group of the table."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings

from headwater.log.batch import Batch, StoredBatch, encode
from headwater.model.message import Message
from headwater.model.run import Run
from headwater.stream.publishing.offered import OfferedRun
from headwater.table import parquet
from table.samples import columns_of, runs_of_messages


def offered(messages: Sequence[Message]) -> Run:
    return OfferedRun.of(columns_of(messages))


def logged(messages: Sequence[Message]) -> Run:
    base = messages[0].seq
    batch = Batch(
        base_seq=base,
        timestamps=[m.ts for m in messages],
        subjects=[m.subject for m in messages],
        headers=[m.headers for m in messages],
        datas=[m.data for m in messages],
        first_seq=base,
        last_seq=messages[-1].seq,
        offsets=[m.seq - base for m in messages],
    )
    return StoredBatch(encode(batch))


def in_table(messages: Sequence[Message]) -> Run:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "f"
        stats = parquet.write(path, columns_of(messages), base_seq=messages[0].seq)
        return parquet.read_group(path, parquet.read_footer(path, stats.footer_crc), 0, messages[0].seq)


KINDS = pytest.mark.parametrize("made", [offered, logged, in_table])


@KINDS
@settings(max_examples=25, deadline=None)
@given(runs_of_messages())
def test_a_run_answers_about_each_of_its_messages(
    made: Callable[[Sequence[Message]], Run], messages: list[Message]
) -> None:
    run = made(messages)
    assert len(run) == len(messages)
    assert run.seqs.tolist() == [m.seq for m in messages]
    assert run.ts.tolist() == [m.ts for m in messages]
    assert run.sizes.tolist() == [len(m.subject) + len(m.headers) + len(m.data) for m in messages]
    assert list(run.subjects) == [m.subject for m in messages]
    assert run.with_headers.tolist() == [bool(m.headers) for m in messages]
    assert [run.message(row) for row in range(len(run))] == messages
    assert run.nbytes >= sum(len(m.data) for m in messages)


@KINDS
@settings(max_examples=25, deadline=None)
@given(runs_of_messages())
def test_a_run_answers_about_chosen_rows(
    made: Callable[[Sequence[Message]], Run], messages: list[Message]
) -> None:
    run = made(messages)
    count = len(messages)
    for rows in (range(count), range(1, count), list(range(0, count, 2)), []):
        chosen = [messages[row] for row in rows]
        headers, datas = run.payloads(rows)
        assert [bytes(each) for each in headers] == [m.headers for m in chosen]
        assert [bytes(each) for each in datas] == [m.data for m in chosen]
        assert list(run.subjects_at(rows)) == [m.subject for m in chosen]
    wanted = {messages[0].subject}
    assert run.subject_mask(wanted.__contains__).tolist() == [m.subject in wanted for m in messages]
