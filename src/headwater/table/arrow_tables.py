"""Messages as Arrow arrays and tables, in the columns of a data file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headwater.model.columns import Buffer, Columns, Int64s, Lengths
from headwater.table.rows import Rows, subject_codes
from headwater.table.schema import DATA, FILE, OTHERS, TIME


def rows_of(columns: Columns) -> Rows:
    """Return messages as Arrow arrays, payload not copied; at most a row group's worth."""
    return Rows(
        columns.seqs,
        columns.ts,
        subject_codes(_values(columns.subject_lengths, columns.subjects)),
        _values(columns.header_lengths, columns.headers, nullable=True),
        _values(columns.data_lengths, columns.datas),
    )


def file_table(rows: Rows, base_seq: int = 0) -> pa.Table:
    """Return messages as the columns of a file."""
    return other_columns(rows, base_seq).append_column(FILE.field(DATA), rows.data_array())


def other_columns(rows: Rows, base_seq: int = 0) -> pa.Table:
    """Return messages as the columns of a file, without their data."""
    micros, nanos = np.divmod(rows.ts, 1000)
    arrays = [
        pa.array(rows.seqs - base_seq),
        rows.subjects,
        pa.array(micros).view(TIME),
        pa.array(nanos.astype(np.int16)),
        rows.headers,
    ]
    return pa.Table.from_arrays(arrays, schema=OTHERS)


def value_starts(lengths: Lengths) -> Int64s:
    """Return where each value begins in the joined bytes, and the end of the last one."""
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends


def _values(lengths: Lengths, joined: Buffer, nullable: bool = False) -> pa.Array:
    """Return joined bytes as an Arrow array, not copied; a row group's bytes fit 32 bit offsets."""
    ends = value_starts(lengths)
    assert ends[-1] == len(joined) <= 0x7FFFFFFF
    present, nulls = None, 0
    if nullable:
        mask = lengths > 0
        nulls = len(lengths) - int(mask.sum())
        present = pa.py_buffer(np.packbits(mask, bitorder="little")) if nulls else None
    buffers = [present, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(joined)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers, null_count=nulls)
