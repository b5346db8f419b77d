"""A part of an archive: messages as Parquet, written whole, read in bounded pieces.

The client that restores an archive may have written it. A few bytes can expand to gigabytes: a compressed
page, or a dictionary whose one long value every row names. So pages are measured before Arrow reads them, and
values before they are taken from their dictionary.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.errors import Error
from headwater.model.columns import Columns, Lengths
from headwater.model.message import Message
from headwater.model.subject import valid_subject
from headwater.table.pages import thrift
from headwater.table.pages.thrift import ThriftError

MAX_BYTES = 256 << 20
MAX_ROWS = 1 << 18
BATCH_ROWS = 4096
LONGEST_SUBJECT = 3072
LONGEST_HEADERS = 65_535
_BINARY = ("subject", "headers", "data")
_SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("ts", pa.int64(), nullable=False),
        *(pa.field(name, pa.binary(), nullable=False) for name in _BINARY),
    ]
)
_UNPACKED_SIZE, _PACKED_SIZE = 2, 3


class ArchiveError(Error):
    """The bytes are not a complete archive of a stream; the message says why."""


def write_part(messages: Sequence[Message]) -> bytes:
    """Return messages as a part."""
    columns = list(zip(*messages, strict=True)) if messages else [()] * len(_SCHEMA)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)]
    out = io.BytesIO()
    table = pa.Table.from_arrays(arrays, schema=_SCHEMA)
    pq.write_table(table, out, compression="zstd", use_dictionary=["subject"])
    return out.getvalue()


def read_part(content: bytes, name: str) -> Columns:
    """Return the messages of a part, each of which a client could have published."""
    try:
        table = _table(content, name)
    except (pa.ArrowException, OSError, ThriftError, LookupError, TypeError, ValueError) as error:
        raise ArchiveError(f"{name} cannot be read: {error}") from error
    if any(column.null_count for column in table.columns):
        raise ArchiveError(f"{name} has missing values")
    _check_messages(table, name)
    subject_lengths, subjects = _joined(table.column("subject"))
    header_lengths, headers = _joined(table.column("headers"))
    data_lengths, datas = _joined(table.column("data"))
    seqs, ts = table.column("seq").to_numpy(), table.column("ts").to_numpy()
    return Columns(seqs, ts, subject_lengths, subjects, header_lengths, headers, data_lengths, datas)


def _table(content: bytes, name: str) -> pa.Table:
    """Return the content of a part, without reading more than a part may contain."""
    if not pq.ParquetFile(io.BytesIO(content)).schema_arrow.equals(_SCHEMA):
        raise ArchiveError(f"{name} does not have the columns of an archive part")
    file = pq.ParquetFile(io.BytesIO(content), read_dictionary=list(_BINARY), pre_buffer=False)
    groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
    if sum(group.num_rows for group in groups) > MAX_ROWS or _unpacked_bytes(content, groups) > MAX_BYTES:
        raise ArchiveError(f"{name} exceeds the size limit of an archive part")
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in file.iter_batches(BATCH_ROWS, use_threads=False):
        size += sum(_decoded_bytes(batch.column(column)) for column in _BINARY)
        if size > MAX_BYTES:
            raise ArchiveError(f"{name} exceeds the size limit of an archive part")
        arrays = [_plain(batch.column(field.name)) for field in _SCHEMA]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA))
    return pa.Table.from_batches(batches, _SCHEMA)


def _unpacked_bytes(content: bytes, groups: Sequence[Any]) -> int:
    """Return the uncompressed size of a file's pages by their own headers: the footer is not trusted."""
    view = memoryview(content)
    filled = (group for group in groups if group.num_rows)
    chunks = (group.column(index) for group in filled for index in range(group.num_columns))
    return sum(size for chunk in chunks for size in _page_sizes(view, chunk))


def _page_sizes(content: memoryview, chunk: Any) -> Iterator[int]:
    """Yield the uncompressed size of each page of a column chunk."""
    at = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < at:
        at = chunk.dictionary_page_offset
    stop = at + chunk.total_compressed_size
    if not 0 <= at <= stop <= len(content):
        raise ThriftError("a column is outside of its file")
    while at < stop:
        header, at = thrift.read_struct(content, at)
        size, unpacked = header[_PACKED_SIZE][1], header[_UNPACKED_SIZE][1]
        if not 0 <= size <= stop - at or unpacked < 0:
            raise ThriftError("a page is cut short")
        yield unpacked
        at += size


def _decoded_bytes(column: pa.Array) -> int:
    """Return the total size of the values of a column, without copying them."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = pc.cast(pc.binary_length(column.dictionary), pa.int64())
    return int(pc.sum(lengths.take(column.indices)).as_py() or 0)


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _check_messages(table: pa.Table, name: str) -> None:
    """Refuse subjects that no server lets a client publish on, because we write them into protocol lines."""
    for subject in pc.unique(table.column("subject")).to_pylist():
        if len(subject) > LONGEST_SUBJECT or not _is_subject(subject):
            raise ArchiveError(f"{name} has a message on {subject[:100]!r}, which is not a subject")
    longest = pc.max(pc.binary_length(table.column("headers"))).as_py() or 0
    if longest > LONGEST_HEADERS:
        raise ArchiveError(f"{name} has a message with {longest} bytes of headers")


def _is_subject(subject: bytes) -> bool:
    try:
        return valid_subject(subject.decode())
    except UnicodeDecodeError:
        return False


def _joined(column: pa.ChunkedArray) -> tuple[Lengths, bytes]:
    """Return a binary column as lengths and joined bytes."""
    lengths: list[Lengths] = []
    pieces: list[bytes] = []
    for chunk in column.chunks:
        _, offsets_buffer, data_buffer = chunk.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
        lengths.append(np.diff(offsets).astype(np.uint32))
        if data_buffer is not None:
            pieces.append(data_buffer[int(offsets[0]) : int(offsets[-1])].to_pybytes())
    return (np.concatenate(lengths) if lengths else np.empty(0, np.uint32)), b"".join(pieces)
