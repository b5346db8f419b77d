"""Rows as Arrow arrays hold the same messages as columns do, whole, in part and joined."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model.columns import Columns, keep
from headwater.model.message import Message
from headwater.table.arrow_tables import rows_of
from headwater.table.pages import data_chunk, plain_values
from headwater.table.rows import Rows, bytes_of, concat, data_nbytes, empty_as_null, nbytes
from table.samples import columns, columns_of, runs_of_messages


def same(one: Columns, two: Columns) -> bool:
    """Return whether two runs hold the same messages."""
    numbers = [(one.seqs, two.seqs), (one.ts, two.ts)]
    for name in ("subject_lengths", "header_lengths", "data_lengths"):
        numbers.append((getattr(one, name), getattr(two, name)))
    texts = [(getattr(one, name), getattr(two, name)) for name in ("subjects", "headers", "datas")]
    return all(np.array_equal(a, b) for a, b in numbers) and all(bytes(a) == bytes(b) for a, b in texts)


def as_plain(rows: Rows) -> Rows:
    """Return the same messages with their data in the form that pages have."""
    return replace(rows, datas=plain_values.of(rows.datas))


@settings(max_examples=60, deadline=None)
@given(runs_of_messages(), st.booleans(), st.data())
def test_chosen_rows_are_the_chosen_messages(
    messages: list[Message], plain: bool, data: st.DataObject
) -> None:
    columns = columns_of(messages)
    rows = as_plain(rows_of(columns)) if plain else rows_of(columns)
    assert same(rows.columns(), columns)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(messages), max_size=len(messages))))
    assert same(rows.filter(chosen).columns(), keep(columns, chosen))
    start, stop = sorted(data.draw(st.tuples(*2 * [st.integers(0, len(messages))])))
    part = rows.slice(start, stop)
    assert same(part.columns(), columns_of(messages[start:stop]))
    assert data_nbytes(part.datas) == sum(len(m.data) for m in messages[start:stop])
    assert plain or nbytes(part.datas) == len(bytes_of(part.datas)) == data_nbytes(part.datas)
    assert set(part.texts) == set(rows_of(columns_of(messages[start:stop])).texts) if stop > start else True


@settings(max_examples=40, deadline=None)
@given(runs_of_messages(), st.integers(1, 10), st.integers(1, 200), st.data())
def test_cut_rows_joined_are_the_whole(
    messages: list[Message], most_rows: int, most_bytes: int, data: st.DataObject
) -> None:
    rows = rows_of(columns_of(messages))
    whole = as_plain(rows) if data.draw(st.booleans()) else rows
    parts = list(whole.cuts(most_rows, most_bytes))
    assert all(0 < len(part) <= most_rows for part in parts)
    assert same(concat(parts).columns(), rows.columns())
    mixed = [as_plain(part) if whole is rows and data.draw(st.booleans()) else part for part in parts]
    assert same(concat(mixed).columns(), rows.columns())


def chunked(seqs: range) -> Rows:
    """Return messages whose data is pages."""
    rows = rows_of(columns(seqs))
    chunk = data_chunk.encode(rows.datas, "none")
    return Rows(rows.seqs, rows.ts, rows.subjects, rows.headers, chunk)


def test_rows_with_pages_are_taken_whole() -> None:
    rows, pages = rows_of(columns(range(1, 30))), chunked(range(1, 30))
    assert pages.payload_bytes == rows.payload_bytes
    assert data_nbytes(pages.datas) == data_nbytes(rows.datas)
    assert pages.filter(np.ones(29, np.bool_)) is pages
    assert list(pages.cuts(10, 50)) == [pages]
    assert concat([pages]) is pages
    for partly in (
        lambda: pages.filter(np.arange(29) > 3),
        lambda: pages.slice(1, 5),
        lambda: concat([pages, rows]),
        pages.columns,
    ):
        with pytest.raises(AssertionError):
            partly()


def test_none_of_the_rows_has_no_message() -> None:
    for rows in (rows_of(columns(range(1, 30))), chunked(range(1, 30))):
        assert len(rows.none()) == len(rows.none().columns()) == 0
        assert rows.none().payload_bytes == 0


def test_empty_values_can_stand_as_null() -> None:
    values = pa.array([b"a", b"", None, b"bc", b""], pa.binary())
    found = empty_as_null(values)
    assert found.to_pylist() == [b"a", None, None, b"bc", None]
    assert found.null_count == 3
