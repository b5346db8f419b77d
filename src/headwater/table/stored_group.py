"""Row groups of a file, verified; each is decoded only as far as a copy needs it."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import starmap
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headwater.model.columns import Int64s
from headwater.model.copied import Copied
from headwater.table import parquet
from headwater.table.checked_bytes import ByteRange
from headwater.table.file_sums import FileSums
from headwater.table.pages import data_chunk
from headwater.table.pages.data_chunk import DataChunk
from headwater.table.parquet import Footer
from headwater.table.read_ahead import read_ahead
from headwater.table.rows import Rows
from headwater.table.schema import DATA
from headwater.table.source_header import with_source
from headwater.table.stored_bytes import StoredBytes, stored


class StoredFile:
    """A data file, memory-mapped or read by ranges; what is copied unchanged is copied only once.

    Files of a table are never changed. Should the disk fail under one, the process ends that reads it.
    """

    def __init__(
        self,
        file: Path | StoredBytes,
        footer: Footer,
        base_seq: int,
        sums: FileSums | None = None,
        copied: Copied | None = None,
    ) -> None:
        """Open a file; the sums over it, if they are known, spare looking for what it does not have."""
        self.name = stored(file).name
        self.footer = footer
        self.base_seq = base_seq
        self.has_headers = sums is None or sums.with_headers > 0
        self.copied = copied
        self._remote = None if isinstance(file, Path) else file
        self._view = memoryview(b"")
        self._mapped: pq.ParquetFile | None = None
        """The file in memory; None if it is remote."""
        if isinstance(file, Path):
            with file.open("rb") as opened:
                self._view = memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))
            # What was taken out of the map keeps it; the last of that closes it.
            self._mapped = parquet.decoder(pa.BufferReader(pa.py_buffer(self._view)), footer)

    def __enter__(self) -> StoredFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._mapped is not None:
            self._mapped.close()

    def group(self, index: int) -> StoredGroup:
        """Return one row group; CorruptionError if its bytes are not those that were written."""
        return self._verified(index, self._content(index))

    def groups(self, indexes: Iterable[int]) -> Iterator[StoredGroup]:
        """Yield row groups; those of a bucket are read ahead, a few at a time."""
        if self._remote is None:
            return map(self.group, indexes)
        return starmap(self._verified, read_ahead(self._content, indexes))

    def decode(self, index: int, columns: list[str], content: memoryview) -> pa.Table:
        """Return columns of a row group that was verified."""
        try:
            if self._mapped is not None:
                return self._mapped.read_row_group(index, columns=columns, use_threads=False)
            source = ByteRange(content, self.footer.places[index][0])
            with parquet.decoder(source, self.footer) as opened:
                return opened.read_row_group(index, columns=columns, use_threads=False)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise parquet.damaged(self.name, self.footer, index, str(error)) from error

    def _content(self, index: int) -> bytes | memoryview:
        start, stop = self.footer.places[index]
        if self._remote is None:
            return self._view[start:stop]
        return self._remote.read(start, stop - start, self.footer.group_crcs[index])

    def _verified(self, index: int, content: bytes | memoryview) -> StoredGroup:
        parquet.verify(self.name, self.footer, index, content)
        return StoredGroup(self, index, memoryview(content))


class StoredGroup:
    """A row group, whose bytes are those that were written."""

    def __init__(self, file: StoredFile, index: int, content: memoryview) -> None:
        self._file = file
        self._index = index
        self._content = content

    def rows(self, *, timed: bool = True, add_source: bool = True) -> Rows:
        """Return the messages with their data as it is in the file, if that is possible.

        Times are decoded only if `timed`. The header that names a copied file's origin is added only if
        `add_source`.
        """
        file = self._file
        copied = file.copied
        timed = timed and copied is None
        group = file.footer.metadata.row_group(self._index)
        first, last = file.footer.bounds[self._index]
        rows = group.num_rows
        is_dense = last - first + 1 == rows
        names = ["subject"]
        names += ["headers"] if file.has_headers else []
        names += ["time", "nanos"] if timed else []
        names += [] if is_dense else ["offset"]
        table = file.decode(self._index, names, self._content)
        subject = _single(table["subject"])
        headers = _single(table["headers"]) if file.has_headers else pa.nulls(rows, pa.binary())
        seqs: Int64s = (
            np.arange(file.base_seq + first, file.base_seq + last + 1)
            if is_dense
            else _single(table["offset"]).to_numpy() + file.base_seq
        )
        ts = np.full(rows, 0 if copied is None else copied.ts, np.int64)
        if copied is not None and add_source:
            origin_seqs = seqs + (copied.source_base - file.base_seq)
            headers = with_source(headers, origin_seqs, subject, copied.line)
        if timed:
            micros, nanos = (_single(table[name]) for name in ("time", "nanos"))
            ts = micros.cast(pa.int64()).to_numpy() * 1000 + nanos.to_numpy()
        chunk = self._chunk(group)
        datas = self._datas() if chunk is None else chunk
        return Rows(seqs, ts, subject, headers, datas)

    def opened(self, rows: Rows) -> Rows:
        """Return all messages of the group with decoded data, so that single ones can be taken out."""
        if not isinstance(rows.datas, DataChunk):
            return rows
        values = rows.datas.values()
        return replace(rows, datas=self._datas() if values is None else values)

    def _datas(self) -> pa.BinaryArray:
        return _single(self._file.decode(self._index, [DATA], self._content)[DATA])

    def _chunk(self, group: Any) -> DataChunk | None:
        """Return what the data is stored as, if others can have that."""
        column = group.column(group.num_columns - 1)
        start = column.data_page_offset - self._file.footer.places[self._index][0]
        content = self._content[start:]
        if column.path_in_schema != DATA or len(content) != column.total_compressed_size:
            return None
        return data_chunk.find(content, column)


def _single(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks() if column.num_chunks else pa.array([], column.type)
