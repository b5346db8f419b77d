"""Messages as columns: joining runs and keeping some rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.columns import Columns, Int64s, Lengths, concat, keep

Rows = list[tuple[int, bytes, bytes, bytes]]

some_bytes = st.binary(max_size=5)
some_rows = st.lists(st.tuples(st.integers(0, 2**62), some_bytes, some_bytes, some_bytes), max_size=8)


def columns_of(rows: Rows, first_seq: int = 1) -> Columns:
    """Return the rows (ts, subject, headers, data) as columns."""
    seqs: Int64s = np.arange(first_seq, first_seq + len(rows), dtype=np.int64)
    ts: Int64s = np.array([row[0] for row in rows], np.int64)
    subjects, headers, datas = [r[1] for r in rows], [r[2] for r in rows], [r[3] for r in rows]
    lengths = [np.array([len(value) for value in column], np.uint32) for column in (subjects, headers, datas)]
    return Columns(
        seqs, ts, lengths[0], b"".join(subjects), lengths[1], b"".join(headers), lengths[2], b"".join(datas)
    )


def rows_of(columns: Columns) -> Rows:
    """Return columns as rows again."""

    def cut(joined: bytes, lengths: Lengths) -> list[bytes]:
        ends = np.cumsum(lengths, dtype=np.int64)
        return [joined[end - length : end] for end, length in zip(ends, lengths, strict=True)]

    return list(
        zip(
            columns.ts.tolist(),
            cut(bytes(columns.subjects), columns.subject_lengths),
            cut(bytes(columns.headers), columns.header_lengths),
            cut(bytes(columns.datas), columns.data_lengths),
            strict=True,
        )
    )


@given(st.lists(some_rows, min_size=1, max_size=4))
def test_joined_runs_hold_the_rows_of_all_parts_in_order(parts: list[Rows]) -> None:
    joined = concat([columns_of(part) for part in parts])
    assert rows_of(joined) == [row for part in parts for row in part]
    assert len(joined) == sum(map(len, parts))


@given(some_rows, st.integers(0, 255))
def test_keeping_by_a_mask_leaves_exactly_the_rows_where_it_is_true(rows: Rows, bits: int) -> None:
    mask = np.array([bool(bits >> i & 1) for i in range(len(rows))], np.bool_)
    kept = keep(columns_of(rows, first_seq=7), mask)
    assert rows_of(kept) == [row for row, wanted in zip(rows, mask, strict=True) if wanted]
    assert kept.seqs.tolist() == [7 + i for i, wanted in enumerate(mask) if wanted]


def test_a_mask_that_keeps_all_copies_nothing() -> None:
    columns = columns_of([(1, b"a", b"", b"x"), (2, b"b", b"", b"y")])
    assert keep(columns, np.array([True, True])) is columns
    assert concat([columns]) is columns
