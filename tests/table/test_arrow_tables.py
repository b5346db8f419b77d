"""Tests of table.arrow_tables."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from headwater.model.message import Message
from headwater.table.arrow_tables import file_table, other_columns, rows_of, value_starts
from headwater.table.schema import FILE, OTHERS
from table.samples import columns_of, runs_of_messages


@settings(max_examples=40, deadline=None)
@given(runs_of_messages())
def test_messages_are_the_columns_of_a_file(messages: list[Message]) -> None:
    base_seq = messages[0].seq
    table = file_table(rows_of(columns_of(messages)), base_seq)
    assert table.schema.names == FILE.names
    assert table["offset"].to_pylist() == [message.seq - base_seq for message in messages]
    # Bytes that are not UTF-8 are stored in another form (`table/rows.py`).
    shown = zip(table["subject"].to_pylist(), messages, strict=True)
    assert all(subject == message.subject.decode() for subject, message in shown if message.subject.isascii())
    assert table["headers"].to_pylist() == [message.headers or None for message in messages]
    assert table["data"].to_pylist() == [message.data for message in messages]
    micros = table["time"].cast("int64").to_numpy()
    times = micros.astype(np.int64) * 1000 + table["nanos"].to_numpy()
    assert times.tolist() == [message.ts for message in messages]
    assert other_columns(rows_of(columns_of(messages)), base_seq).schema.names == OTHERS.names


def test_values_start_where_the_ones_before_end() -> None:
    assert value_starts(np.array([3, 0, 2], np.int32)).tolist() == [0, 3, 3, 5]
