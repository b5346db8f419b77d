"""Messages to Parquet and back: row groups of bounded size, whose bytes are all checked when read."""

from __future__ import annotations

import json
import struct
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.checksum import crc32
from headwater.errors import CorruptionError, NewerFormatError
from headwater.model.columns import Columns, concat
from headwater.model.copied import Copied
from headwater.table import file_sums
from headwater.table.arrow_tables import file_table, other_columns, rows_of, value_starts
from headwater.table.checked_bytes import ByteRange, ChecksumSink
from headwater.table.datafile import FileContent
from headwater.table.direct_file import DirectFile
from headwater.table.file_sums import MOST_BYTES, MOST_SUBJECTS, FileSummer, FileSums
from headwater.table.pages import data_chunk
from headwater.table.pages.data_chunk import DataChunk
from headwater.table.pages.spliced import SplicedWriter
from headwater.table.row_group import RowGroup
from headwater.table.rows import Datas, Rows
from headwater.table.schema import FILE
from headwater.table.stored_bytes import StoredBytes, stored

Compression = Literal["none", "s2"]

PACKED: Compression = "s2"
"""Compressed, with what Parquet has for it."""
MAX_GROUP_ROWS = 16_384
MAX_GROUP_BYTES = 4 << 20
FILE_VERSION = 1
"""Of what a footer says beyond Parquet; a file that names none has this first one."""
_VERSION = "headwater.version"
_GROUP_CRCS = "headwater.group_crcs"
_SUMS = "headwater.sums"
_MAGIC = b"PAR1"
_TAIL = struct.Struct("<I4s")
_CODECS: dict[str, dict[str, Any]] = {
    "none": {"compression": "none"},
    "s2": {"compression": "zstd", "compression_level": 1},
}
_NUMBERS = ("offset", "time", "nanos")
_TIME_COLUMN = FILE.names.index("time")
_UNPACKED: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class FileStats:
    """What the writer of a file knows once it is finished."""

    content: FileContent
    footer_crc: int
    sums: FileSums | None
    """None if there are too many subjects or gaps."""


@dataclass(frozen=True, slots=True)
class Footer:
    """A file's parsed footer; of each row group the first and last offset, the place and the checksum."""

    metadata: pq.FileMetaData
    bounds: tuple[tuple[int, int], ...]
    places: tuple[tuple[int, int], ...]
    group_crcs: tuple[int, ...]
    file_bytes: int
    """The size of the whole file."""


def write(path: Path, columns: Columns, base_seq: int, compression: str = "none") -> FileStats:
    """Write the messages as one file and return what it holds; nothing is synced."""
    writer = FileWriter(path, base_seq, compression)
    writer.append(columns)
    return writer.finish()


class FileWriter:
    """Writes a file: takes runs of messages in ascending sequence and cuts them into full row groups."""

    def __init__(
        self,
        path: Path,
        base_seq: int,
        compression: str = "none",
        *,
        most_subjects: int | None = MOST_SUBJECTS,
        packed: Mapping[str, str] = _UNPACKED,
        may_demand: bool = True,
        may_have_ids: bool = True,
        spliced: bool = False,
        direct: bool = False,
    ) -> None:
        """Begin a file; `packed` names codecs of columns to be compressed where nothing else is.

        Without `may_demand` no header makes demands on the stream, as in a copy, and none is looked for;
        the same with `may_have_ids` and message ids.
        A `spliced` file also takes data pages of other files; a `direct` one bypasses the page cache.
        """
        self._path = path
        self.packs_data = False
        """Whether data is compressed, if only a little, that is not compressed otherwise."""
        self._compression = compression
        self._tally = FileSummer(most_subjects, may_demand=may_demand, may_have_ids=may_have_ids)
        self._base_seq = base_seq
        self._rest: Columns | None = None
        """Rows that wait for a full row group."""
        self.rows = 0
        self._headerless_rows = 0
        self._first_offset = self._last_offset = -1
        self._ts: list[int] = []
        """The earliest and latest time of each row group."""
        self._subjects: list[str] = []
        self._group_crcs: list[int] = []
        """A checksum for each row group, for the footer."""
        self._direct = DirectFile(path) if direct else None
        self._sink = ChecksumSink(self._direct or FileIO(path, "wb"))
        options = {
            "use_dictionary": ["subject"],
            "column_encoding": dict.fromkeys(_NUMBERS, "DELTA_BINARY_PACKED"),
            "write_statistics": ["offset", "subject", "time"],
            "write_page_checksum": True,
            "write_batch_size": MAX_GROUP_ROWS,
            "store_schema": False,
            **_codec(compression, packed),
        }
        self._writer: pq.ParquetWriter | SplicedWriter
        if spliced:
            self._writer = SplicedWriter(self._sink, **options)
        else:
            self._writer = pq.ParquetWriter(pa.PythonFile(self._sink, mode="w"), FILE, **options)

    @property
    def size_bytes(self) -> int:
        """Return the length of the file so far."""
        return self._sink.size

    @property
    def disk_bytes_per_s(self) -> float | None:
        """Return the write rate of a direct file, None until it is known."""
        return self._direct.bytes_per_s if self._direct is not None else None

    def append(self, columns: Columns) -> None:
        """Take messages; those that do not fill a row group wait for more."""
        self.rows += len(columns)
        if self._rest is not None:
            columns = concat([self._rest, columns])
        self._rest = None
        for group in cuts(columns):
            self._write_rest()
            self._rest = group

    def append_group(self, rows: Rows) -> None:
        """Take messages as a row group of their own."""
        self._write_rest()
        self.rows += len(rows)
        self._write_rows(rows)

    def finish(self) -> FileStats:
        """Write the waiting messages and the footer, close the file, and return its content."""
        self._write_rest()
        assert self.rows > 0, "a file holds at least one message"
        metadata = {_VERSION: str(FILE_VERSION), _GROUP_CRCS: json.dumps(self._group_crcs)}
        sums = self._tally.sums()
        if sums is not None and len(sums.subjects) <= MOST_SUBJECTS:
            encoded = file_sums.encode(sums)
            metadata |= {_SUMS: encoded.decode()} if len(encoded) <= MOST_BYTES else {}
        self._writer.add_key_value_metadata(metadata)
        self._close()
        footer, _ = read_footer_bytes(self._path)
        content = FileContent(
            self.rows,
            self._first_offset,
            self._last_offset,
            min(self._ts),
            max(self._ts),
            min(self._subjects),
            max(self._subjects),
            self._headerless_rows,
            self._path.stat().st_size,
        )
        return FileStats(content, crc32(footer), sums)

    def abandon(self) -> None:
        """Close the file without a footer; it cannot be read."""
        self._close()

    def _close(self) -> None:
        """Write the footer and close the file."""
        try:
            self._writer.close()
        finally:
            self._sink.close()

    def _write_rest(self) -> None:
        """Write the waiting messages as a row group."""
        if self._rest is not None:
            rows, self._rest = rows_of(self._rest), None
            self._write_rows(rows)

    def _write_rows(self, rows: Rows) -> None:
        """Write one row group."""
        offsets = rows.seqs - self._base_seq
        assert offsets[0] > self._last_offset, "sequences ascend"
        assert len(offsets) == 1 or (np.diff(offsets) > 0).all(), "sequences ascend"
        assert offsets[0] >= 0, "the base is not above the first sequence"
        self._sink.take_crc()
        if isinstance(self._writer, SplicedWriter):
            self._writer.write(other_columns(rows, self._base_seq), self._chunk_of(rows.datas))
        else:
            self._writer.write_table(file_table(rows, self._base_seq), row_group_size=MAX_GROUP_ROWS)
        self._group_crcs.append(self._sink.take_crc())
        self._tally.add(offsets, rows.ts, rows.subjects, rows.headers, rows.datas)
        self._subjects += pc.min_max(rows.subjects.dictionary).as_py().values()
        self._ts += (int(rows.ts.min()), int(rows.ts.max()))
        self._headerless_rows += rows.headers.null_count
        self._first_offset = int(offsets[0]) if self._first_offset < 0 else self._first_offset
        self._last_offset = int(offsets[-1])

    def _chunk_of(self, datas: Datas) -> DataChunk:
        """Return the data of a row group as pages."""
        if isinstance(datas, DataChunk):
            return datas
        codec = _CODECS[self._compression]
        if self.packs_data and self._compression == "none":
            codec = {"compression": "lz4"}
        return data_chunk.encode(datas, **codec)


def cuts(columns: Columns) -> Iterator[Columns]:
    """Yield the row groups without copying payload: at most this many rows and bytes, at least one row."""
    joined = (columns.subjects, columns.headers, columns.datas)
    lengths = (columns.subject_lengths, columns.header_lengths, columns.data_lengths)
    ends = [value_starts(each) for each in lengths]
    sizes = np.add.reduce(ends)
    views = [memoryview(each) for each in joined]
    start = 0
    while start < len(columns):
        full = int(np.searchsorted(sizes, sizes[start] + MAX_GROUP_BYTES, side="right")) - 1
        stop = min(max(full, start + 1), start + MAX_GROUP_ROWS, len(columns))
        (s, h, d) = (view[end[start] : end[stop]] for view, end in zip(views, ends, strict=True))
        (sl, hl, dl) = (each[start:stop] for each in lengths)
        yield Columns(columns.seqs[start:stop], columns.ts[start:stop], sl, s, hl, h, dl, d)
        start = stop


def read_footer_bytes(file: Path | StoredBytes) -> tuple[bytes, int]:
    """Return the footer with the tail of a file, as they are stored, and where they begin."""
    source = stored(file)
    found, size = source.tail(source.first_tail)
    length, magic = _TAIL.unpack(found[-_TAIL.size :]) if len(found) >= _TAIL.size else (0, b"")
    wanted = length + _TAIL.size
    if magic != _MAGIC or wanted > size:
        raise CorruptionError(source.name, max(0, size - _TAIL.size), "the file has no Parquet footer")
    if wanted > len(found):
        found, size = source.tail(wanted)
    return found[-wanted:], size - wanted


def read_footer(file: Path | StoredBytes, crc: int | None) -> Footer:
    """Return the footer; its checksum must match if one is given."""
    raw, start = read_footer_bytes(file)
    name = stored(file).name
    if crc is not None and crc32(raw) != crc:
        raise CorruptionError(name, start, "the footer's checksum does not match")
    try:
        metadata = pq.read_metadata(pa.BufferReader(raw))
        _require_known(name, metadata)
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        bounds = [group.column(0).statistics for group in groups]
        crcs = json.loads((metadata.metadata or {})[_GROUP_CRCS.encode()])
        places = tuple(_place(group) for group in groups)
        size = start + len(raw)
        return Footer(metadata, tuple((b.min, b.max) for b in bounds), places, tuple(crcs), size)
    except (pa.ArrowException, OSError, ValueError, KeyError, AttributeError) as error:
        raise CorruptionError(name, start, f"unreadable footer: {error}") from error


def latest_times(footer: Footer, latest_ts: int) -> tuple[int, ...]:
    """Return for each row group the latest time, rounded up; where none is written, that of the file."""
    metadata, times = footer.metadata, []
    for index in range(metadata.num_row_groups):
        facts = metadata.row_group(index).column(_TIME_COLUMN).statistics
        has_time = facts is not None and facts.has_min_max
        times.append(facts.max_raw * 1000 + 999 if has_time else latest_ts)
    return tuple(times)


def _require_known(name: str, metadata: pq.FileMetaData) -> None:
    """Refuse a file that a newer release wrote."""
    version = int((metadata.metadata or {}).get(_VERSION.encode(), b"1"))
    if version > FILE_VERSION:
        raise NewerFormatError(f"the data file {name}", version, FILE_VERSION)


def read_group(
    file: Path | StoredBytes, footer: Footer, index: int, base_seq: int, copied: Copied | None = None
) -> RowGroup:
    """Return one row group, with its checksum verified."""
    start, stop = footer.places[index]
    opened = stored(file)
    content = opened.read(start, stop - start, footer.group_crcs[index])
    verify(opened.name, footer, index, content)
    try:
        with decoder(ByteRange(content, start), footer) as parquet:
            return RowGroup(parquet.read_row_group(index, use_threads=False), base_seq, copied)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damaged(opened.name, footer, index, str(error)) from error


def decoder(source: ByteRange | pa.NativeFile, footer: Footer) -> pq.ParquetFile:
    """Return what decodes row groups of a file; all of it runs in the calling thread.

    Arrow would otherwise read ahead on threads of its own, which may release Python's memory while the
    interpreter ends (`process/ending.py`), and what we pass is in memory already.
    """
    file = pa.PythonFile(source, mode="r") if isinstance(source, ByteRange) else source
    return pq.ParquetFile(file, metadata=footer.metadata, read_dictionary=["subject"], pre_buffer=False)


def verify(name: Path | str, footer: Footer, index: int, content: bytes | memoryview) -> None:
    """Raise if these are not the bytes that were written as a row group."""
    # The pages' own checksums, there for other readers, leave out the page headers.
    if crc32(content) != footer.group_crcs[index]:
        raise damaged(name, footer, index, "the checksum does not match")


def damaged(name: Path | str, footer: Footer, index: int, problem: str) -> CorruptionError:
    """Return what to raise when a row group is not what was written."""
    return CorruptionError(name, footer.places[index][0], f"row group {index}: {problem}")


def read_sums(footer: Footer) -> FileSums | None:
    """Return the sums over a file's messages, None if its footer has none."""
    encoded = (footer.metadata.metadata or {}).get(_SUMS.encode())
    return file_sums.decode(encoded) if encoded else None


def _codec(compression: str, packed: Mapping[str, str]) -> dict[str, Any]:
    """Return how pages are compressed."""
    if not packed or compression != "none":
        return _CODECS[compression]
    levels = {name: 1 for name, codec in packed.items() if codec == "zstd"}
    codecs = {field.name: "none" for field in FILE} | dict(packed)
    return {"compression": codecs, "compression_level": levels or None}


def _place(group: Any) -> tuple[int, int]:
    """Return where the bytes of a row group begin and end."""
    starts, ends = zip(*column_ranges(group), strict=True)
    return min(starts), max(ends)


def column_ranges(
    group: pq.RowGroupMetaData, wanted: Container[str] | None = None
) -> Iterator[tuple[int, int]]:
    """Yield where the bytes of each column begin and end, of all columns or the wanted ones."""
    for index in range(group.num_columns):
        chunk = group.column(index)
        if wanted is None or chunk.path_in_schema in wanted:
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            yield start, start + chunk.total_compressed_size
