"""A row group is a run of messages."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings

from headwater.model.columns import Columns, keep
from headwater.model.message import Message
from headwater.model.run import Run
from headwater.table import parquet
from headwater.table.row_group import RowGroup
from table.samples import columns_of, messages_of, runs_of_messages


def group_of(messages: list[Message]) -> RowGroup:
    """Return the messages as a row group that was written and read."""
    return group_of_columns(columns_of(messages))


@settings(max_examples=40, deadline=None)
@given(runs_of_messages())
def test_a_row_group_answers_as_a_run(messages: list[Message]) -> None:
    run: Run = group_of(messages)
    assert len(run) == len(messages)
    assert run.seqs.tolist() == [m.seq for m in messages]
    assert run.ts.tolist() == [m.ts for m in messages]
    assert run.sizes.tolist() == [len(m.subject) + len(m.headers) + len(m.data) for m in messages]
    assert run.subjects == [m.subject for m in messages]
    assert run.with_headers.tolist() == [bool(m.headers) for m in messages]
    assert messages_of(run) == messages
    for rows in (range(len(messages)), range(1, len(messages)), list(range(0, len(messages), 2))):
        chosen = [messages[row] for row in rows]
        assert run.payloads(rows) == ([m.headers for m in chosen], [m.data for m in chosen])
        assert run.subjects_at(rows) == [m.subject for m in chosen]
    assert run.nbytes >= sum(len(m.data) for m in messages)


@settings(max_examples=40, deadline=None)
@given(runs_of_messages())
def test_columns_of_a_row_group_are_those_that_were_written(messages: list[Message]) -> None:
    odd = np.array([m.seq % 2 == 1 for m in messages])
    if odd.any():
        kept = keep(group_of(messages).columns(), odd)
        assert messages_of(group_of_columns(kept)) == [m for m in messages if m.seq % 2 == 1]


def group_of_columns(columns: Columns) -> RowGroup:
    """Return columns as a row group that was written and read."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "x"
        stats = parquet.write(path, columns, 0)
        return parquet.read_group(path, parquet.read_footer(path, stats.footer_crc), 0, 0)
