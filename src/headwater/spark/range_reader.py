"""The messages of a range as Arrow batches with the selected columns.

This is what Spark's executors run for `spark.read.format("headwater")`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
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
from headwater.spark.read_range import ReadRange
from headwater.table import parquet
from headwater.table.datafile import DataFile
from headwater.table.output import footer_crc_of
from headwater.table.schema import TIME
from headwater.table.source_header import with_source
from headwater.table.stored_bytes import ObjectBytes, SeekableBytes, StoredBytes, stored

HEADERS = pa.map_(pa.string(), pa.list_(pa.string()))
COLUMNS = pa.schema(
    [
        pa.field("seq", pa.int64()),
        pa.field("subject", pa.string()),
        pa.field("time", TIME),
        pa.field("nanos", pa.int16()),
        pa.field("headers", HEADERS),
        pa.field("data", pa.binary()),
    ]
)
"""The columns of a row; `headers` is null if a message has none."""


KeepGroup = Callable[[DataFile, pq.RowGroupMetaData], bool]


class GoneError(Error):
    """A file was replaced after the read was planned; reading again finds the new one."""

    retryable = True


def read_batches(
    part: ReadRange,
    origin: NatsOrigin | None,
    names: Sequence[str],
    keep: KeepGroup = lambda file, group: True,
) -> Iterator[pa.RecordBatch]:
    """Yield the range's messages in ascending sequence, a row group's worth at a time.

    A row group for which `keep` returns False is not read.
    """
    if part.file is not None:
        try:
            yield from _file_batches(part, part.file, names, keep)
        except (FileNotFoundError, ObjectError) as error:
            if isinstance(error, ObjectError) and error.problem is not Problem.MISSING:
                raise
            raise GoneError(f"{part.file.path} was replaced while it was read: read again") from None
        return
    assert origin is not None, "without files there is an API to ask"
    for rows in OriginReader(origin, part.first_seq, part.last_seq, ()):
        yield from _batches(parquet.file_table(rows).append_column("seq", pa.array(rows.seqs)), names)


def _file_batches(
    part: ReadRange, file: DataFile, names: Sequence[str], keep: KeepGroup
) -> Iterator[pa.RecordBatch]:
    path = _opened(part, file)
    footer = parquet.read_footer(path, footer_crc_of(file.path))
    removed = BitMap64.deserialize(part.removed) if part.removed else BitMap64()
    wanted = {"offset", *names} - {"seq"}
    if file.copied is not None and "headers" in names:
        wanted.add("subject")
    remote = None if isinstance(path, Path) else SeekableBytes(path, file.size_bytes)
    source = path if remote is None else pa.PythonFile(remote, mode="r")
    options = {"metadata": footer.metadata, "page_checksum_verification": True}
    with pq.ParquetFile(source, pre_buffer=False, **options) as opened:
        for index, (first, last) in enumerate(footer.bounds):
            if file.base_seq + last < part.first_seq or file.base_seq + first > part.last_seq:
                continue
            if not keep(file, footer.metadata.row_group(index)):
                continue
            if remote is not None:
                remote.fetch(parquet.column_ranges(footer.metadata.row_group(index), wanted))
            try:
                rows = opened.read_row_group(index, columns=sorted(wanted), use_threads=False)
            except (pa.ArrowException, OSError, ValueError) as error:
                raise CorruptionError(
                    stored(path).name, footer.places[index][0], f"row group {index}: {error}"
                ) from error
            seqs: Int64s = rows["offset"].to_numpy() + file.base_seq
            mask = _live(seqs, part, removed)
            if file.copied is not None:
                rows = _as_copied(rows, file.copied)
            rows = rows.append_column("seq", pa.array(seqs))
            yield from _batches(rows if mask.all() else rows.filter(pa.array(mask)), names)


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


def _live(seqs: Int64s, part: ReadRange, removed: BitMap64) -> npt.NDArray[np.bool_]:
    """Return which sequences belong to the range and have a live message."""
    mask = (seqs >= part.first_seq) & (seqs <= part.last_seq)
    if removed:
        mask &= np.fromiter((seq not in removed for seq in seqs.tolist()), np.bool_, len(seqs))
    return mask


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
        return pa.array([_headers(raw) for raw in column.to_pylist()], HEADERS)
    return column.cast(COLUMNS.field(name).type)


def _headers(raw: bytes | None) -> list[tuple[str, list[str]]] | None:
    """Return a header block as the pairs of a map; invalid UTF-8 becomes U+FFFD."""
    if not raw:
        return None
    parsed = header_block.to_dict(raw) or {}
    return [
        (name.decode(errors="replace"), [value.decode(errors="replace") for value in values])
        for name, values in parsed.items()
    ]
