"""What is known of all rows of a file or a row group, and whether a filter can match it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq

from headwater.spark.columns import COLUMNS
from headwater.spark.read_range import ReadRange
from headwater.table.datafile import DataFile
from headwater.table.schema import TIME

_FORMAT = ds.ParquetFileFormat()
_FILES = pyarrow.fs.LocalFileSystem()


def of_range(first_seq: int, last_seq: int) -> pc.Expression:
    """Return what is known of a range of sequences."""
    return _between("seq", first_seq, last_seq)


def of_part(part: ReadRange) -> pc.Expression:
    """Return what is known of a range of a read."""
    known = of_range(part.first_seq, part.last_seq)
    return known if part.file is None else known & of_file(part.file)


def of_file(file: DataFile) -> pc.Expression:
    """Return what the table's log says about a file."""
    known = of_range(file.first_seq, file.last_seq)
    known &= _between("time", _micros(file.first_ts // 1000), _micros(file.last_ts // 1000))
    if file.first_subject is not None:
        known &= pc.field("subject") >= file.first_subject
    if file.last_subject is not None:
        known &= pc.field("subject") <= file.last_subject
    return known


def of_group(file: DataFile, group: pq.RowGroupMetaData) -> pc.Expression:
    """Return what a file's footer says about a row group."""
    known = of_file(file)
    for index in range(group.num_columns):
        column = group.column(index)
        facts = column.statistics
        if facts is None or not facts.has_min_max:
            continue
        name = column.path_in_schema
        if name == "offset":
            known &= of_range(file.base_seq + facts.min, file.base_seq + facts.max)
        elif name == "subject":
            known &= _between("subject", facts.min, facts.max)
        elif name == "time" and file.copied is None:
            known &= _between("time", pa.scalar(facts.min, TIME), pa.scalar(facts.max, TIME))
    return known


def may_match(wanted: pc.Expression | None, known: pc.Expression) -> bool:
    """Return False only if no row with these properties can match the filter."""
    if wanted is None:
        return True
    fragment = _FORMAT.make_fragment("unused", _FILES, partition_expression=known)
    holder = ds.FileSystemDataset([fragment], COLUMNS, _FORMAT, _FILES)
    return any(True for _ in holder.get_fragments(filter=wanted))


def _between(name: str, least: Any, most: Any) -> pc.Expression:
    return (pc.field(name) >= least) & (pc.field(name) <= most)


def _micros(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.int64()).cast(TIME)
