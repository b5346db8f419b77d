"""The messages of a range as Arrow batches with the selected columns.

This is what Spark's executors run for `spark.read.format("headwater")`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from headwater.errors import CorruptionError, Error
from headwater.model import headers as header_block
from headwater.model.columns import Int64s
from headwater.model.copied import Copied
from headwater.objects.bucket import Bucket
from headwater.objects.object_error import ObjectError, Problem
from headwater.replication.work import NatsOrigin
from headwater.replication.worker.origin import OriginReader
from headwater.spark.columns import COLUMNS, HEADERS
from headwater.spark.read_range import ReadRange
from headwater.spark.selection import EVERYTHING, Mask, ReadSelection
from headwater.table import parquet
from headwater.table.arrow_tables import file_table
from headwater.table.datafile import DataFile
from headwater.table.output import footer_crc_of
from headwater.table.schema import TIME
from headwater.table.source_header import with_source
from headwater.table.stored_bytes import ObjectBytes, SeekableBytes, StoredBytes, stored

KeepGroup = Callable[[DataFile, pq.RowGroupMetaData], bool]


class GoneError(Error):
    """A file was replaced after the read was planned; reading again finds the new one."""

    retryable = True


def read_batches(
    part: ReadRange,
    origin: NatsOrigin | None,
    names: Sequence[str],
    selection: ReadSelection = EVERYTHING,
    keep: KeepGroup = lambda file, group: True,
) -> Iterator[pa.RecordBatch]:
    """Yield the selected messages of the range in ascending sequence, a row group's worth at a time.

    A row group that has none of them, or for which `keep` returns False, is not read.
    """
    if part.file is not None:
        try:
            yield from _file_batches(part, part.file, names, selection, keep)
        except (FileNotFoundError, ObjectError) as error:
            if isinstance(error, ObjectError) and error.problem is not Problem.MISSING:
                raise
            raise GoneError(f"{part.file.path} was replaced while it was read: read again") from None
        return
    assert origin is not None, "without files there is an API to ask"
    for rows in OriginReader(origin, part.first_seq, part.last_seq, selection.api_filters()):
        table = file_table(rows).append_column("seq", pa.array(rows.seqs))
        yield from _batches(_kept(table, selection.mask(table)), names)


def _file_batches(
    part: ReadRange, file: DataFile, names: Sequence[str], selection: ReadSelection, keep: KeepGroup
) -> Iterator[pa.RecordBatch]:
    path = _opened(part, file)
    footer = parquet.read_footer(path, footer_crc_of(file.path))
    removed = BitMap64.deserialize(part.removed) if part.removed else BitMap64()
    remote = None if isinstance(path, Path) else SeekableBytes(path, file.size_bytes)
    source = path if remote is None else pa.PythonFile(remote, mode="r")
    coded = ["subject"] if "subject" in selection.columns else None
    options = {"metadata": footer.metadata, "page_checksum_verification": True, "read_dictionary": coded}
    with pq.ParquetFile(source, pre_buffer=False, **options) as opened:
        for index, (first, last) in enumerate(footer.bounds):
            group = footer.metadata.row_group(index)
            if file.base_seq + last < part.first_seq or file.base_seq + first > part.last_seq:
                continue
            if not keep(file, group) or not selection.may_contain_group(file, group):
                continue
            try:
                rows = _group_rows(_RowGroupReader(opened, index, remote), part, names, selection, removed)
            except (pa.ArrowException, OSError, ValueError) as error:
                raise CorruptionError(
                    stored(path).name, footer.places[index][0], f"row group {index}: {error}"
                ) from error
            yield from _batches(rows, names)


@dataclass(frozen=True)
class _RowGroupReader:
    """One row group of an open file."""

    opened: pq.ParquetFile
    index: int
    remote: SeekableBytes | None
    """Its bytes in a bucket; None for a file on the disk."""

    def read(self, names: Set[str]) -> pa.Table:
        """Return some columns; from a bucket, with one request for neighbouring bytes."""
        if self.remote is not None:
            group = self.opened.metadata.row_group(self.index)
            self.remote.fetch(parquet.column_ranges(group, names))
        return self.opened.read_row_group(self.index, columns=sorted(names), use_threads=False)


def _group_rows(
    group: _RowGroupReader,
    part: ReadRange,
    names: Sequence[str],
    selection: ReadSelection,
    removed: BitMap64,
) -> pa.Table:
    """Return the selected rows of a row group; the columns that select them are read first."""
    assert part.file is not None
    copied = part.file.copied
    wanted = {"offset", *names} - {"seq"}
    if copied is not None and "headers" in names:
        wanted.add("subject")
    first = {"offset", *selection.columns} if selection.columns else wanted
    rows = group.read(first)
    seqs: Int64s = rows["offset"].to_numpy() + part.file.base_seq
    mask = _live(seqs, part, removed)
    if selection.columns:
        own = rows if copied is None else _as_copied(rows, copied)
        mask &= selection.mask(own.append_column("seq", pa.array(seqs)))
    if mask.any() and wanted - first:
        rest = group.read(wanted - first)
        for name in rest.column_names:
            rows = rows.append_column(name, rest[name])
    if not mask.any():
        return pa.table({})
    if copied is not None:
        rows = _as_copied(rows, copied)
    return _kept(rows.append_column("seq", pa.array(seqs)), mask)


def _opened(part: ReadRange, file: DataFile) -> Path | StoredBytes:
    """Return the file, on the disk or in a bucket."""
    return Path(file.path) if part.bucket is None else ObjectBytes(Bucket(part.bucket), file.path)


def _as_copied(rows: pa.Table, copied: Copied) -> pa.Table:
    """Return the rows of a linked file with the target's own values."""
    replaced: dict[str, pa.Array] = {}
    if "headers" in rows.column_names:
        seqs = rows["offset"].to_numpy() + copied.source_base
        subjects = rows["subject"].combine_chunks().dictionary_encode()
        replaced["headers"] = with_source(rows["headers"].combine_chunks(), seqs, subjects, copied.line)
    if "time" in rows.column_names:
        replaced["time"] = pa.repeat(pa.scalar(copied.micros, pa.int64()), rows.num_rows).cast(TIME)
    if "nanos" in rows.column_names:
        replaced["nanos"] = pa.repeat(pa.scalar(0, pa.int16()), rows.num_rows)
    for name, column in replaced.items():
        rows = rows.set_column(rows.column_names.index(name), name, column)
    return rows


def _live(seqs: Int64s, part: ReadRange, removed: BitMap64) -> Mask:
    """Return which sequences belong to the range and have a live message."""
    mask: Mask = (seqs >= part.first_seq) & (seqs <= part.last_seq)
    if removed and len(seqs):
        gone = removed & BitMap64(range(int(seqs[0]), int(seqs[-1]) + 1))
        mask &= ~np.isin(seqs, np.array(gone.to_array(), np.int64), assume_unique=True)
    return mask


def _kept(rows: pa.Table, mask: Mask) -> pa.Table:
    return rows if mask.all() else rows.filter(pa.array(mask))


def _batches(rows: pa.Table, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield rows with the given columns in Spark's types."""
    if not rows.num_rows:
        return
    arrays = [_column(rows, name) for name in names]
    schema = pa.schema([COLUMNS.field(name) for name in names])
    yield from pa.Table.from_arrays(arrays, schema=schema).combine_chunks().to_batches()


def _column(rows: pa.Table, name: str) -> pa.ChunkedArray | pa.Array:
    column = rows[name]
    if name == "headers" and column.null_count == len(column):
        return pa.nulls(len(column), HEADERS)
    if name == "headers":
        return pa.array([header_block.text_pairs(raw) for raw in column.to_pylist()], HEADERS)
    return column.cast(COLUMNS.field(name).type)
