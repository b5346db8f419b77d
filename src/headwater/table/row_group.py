"""One row group of a data file in memory: the run of messages that a reader takes at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.model.columns import Columns, Int64s
from headwater.model.copied import Copied
from headwater.model.message import Message
from headwater.model.run import numbers_at
from headwater.table.schema import subject_bytes
from headwater.table.source_header import with_source


class RowGroup:
    """Messages as Arrow columns; Python objects are made on demand."""

    def __init__(self, table: pa.Table, base_seq: int, copied: Copied | None = None) -> None:
        """Take the rows of a file; for a source's linked file, add the header and times they have here."""
        self._length: int = table.num_rows
        subject = _single(table["subject"])
        self._subject_codes: Int64s = subject.indices.to_numpy().astype(np.int64)
        """For each row, the index of its subject in `_dictionary`."""
        self._dictionary = [subject_bytes(text) for text in subject.dictionary.to_pylist()]
        """The subjects that occur."""
        offsets = _single(table["offset"]).to_numpy()
        headers = _single(table["headers"])
        if copied is not None:
            headers = with_source(headers, offsets + copied.source_base, subject, copied.line)
        self._header_ends, self._headers = _joined(headers)
        self._data_ends, self._datas = _joined(_single(table["data"]))
        self.seqs: Int64s = offsets + base_seq
        if copied is not None:
            self.ts: Int64s = np.full(self._length, copied.ts, np.int64)
        else:
            time = _single(table["time"]).cast(pa.int64()).to_numpy()
            self.ts = time * 1000 + _single(table["nanos"]).to_numpy()
        # Five columns of numbers, and the list of subjects that most readers ask for.
        texts = sum(len(subject) for subject in self._dictionary)
        self._nbytes: int = len(self._headers) + len(self._datas) + texts + 6 * 8 * self._length

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        """Return about how much memory the group holds."""
        return self._nbytes

    @cached_property
    def sizes(self) -> Int64s:
        """Return len(subject) + len(headers) + len(data) of each message."""
        return self._subject_lengths() + np.diff(self._header_ends) + np.diff(self._data_ends)

    @cached_property
    def subjects(self) -> list[bytes]:
        """Return the subject of each message; equal ones are one object."""
        dictionary = self._dictionary
        return [dictionary[code] for code in self._subject_codes.tolist()]

    @cached_property
    def with_headers(self) -> npt.NDArray[np.bool_]:
        """Return which messages carry headers."""
        return np.diff(self._header_ends) > 0

    def subject_mask(self, takes: Callable[[bytes], bool]) -> npt.NDArray[np.bool_]:
        """Return for each message whether its subject is taken; each subject is asked for once."""
        taken = np.fromiter(map(takes, self._dictionary), np.bool_, len(self._dictionary))
        return taken[self._subject_codes]

    def payloads(self, rows: Sequence[int]) -> tuple[list[bytes], list[bytes]]:
        """Return headers and data of the messages at these rows."""
        return (
            _cut(self._headers, self._header_ends, rows) if self._headers else [b""] * len(rows),
            _cut(self._datas, self._data_ends, rows),
        )

    def subjects_at(self, rows: Sequence[int]) -> list[bytes]:
        """Return the subjects of the messages at these rows."""
        dictionary = self._dictionary
        return [dictionary[code] for code in numbers_at(self._subject_codes, rows)]

    def message(self, index: int) -> Message:
        """Return the message at this index."""
        header_end, data_end = self._header_ends.item, self._data_ends.item
        return Message(
            self.seqs.item(index),
            self.ts.item(index),
            self._dictionary[self._subject_codes.item(index)],
            self._headers[header_end(index) : header_end(index + 1)],
            self._datas[data_end(index) : data_end(index + 1)],
        )

    def columns(self) -> Columns:
        """Return the messages as columns, payload not copied."""
        return Columns(
            self.seqs,
            self.ts,
            self._subject_lengths().astype(np.uint32),
            b"".join(self.subjects),
            np.diff(self._header_ends).astype(np.uint32),
            self._headers,
            np.diff(self._data_ends).astype(np.uint32),
            self._datas,
        )

    def _subject_lengths(self) -> Int64s:
        """Return the length of each subject."""
        return np.array([len(subject) for subject in self._dictionary], np.int64)[self._subject_codes]


def _cut(joined: bytes, ends: Int64s, rows: Sequence[int]) -> list[bytes]:
    """Return the values of these rows."""
    if isinstance(rows, range):
        bounds = ends[rows.start : rows.stop + 1].tolist()
        return [joined[start:stop] for start, stop in pairwise(bounds)]
    chosen = np.asarray(rows, np.intp)
    starts, stops = ends[chosen].tolist(), ends[chosen + 1].tolist()
    return [joined[start:stop] for start, stop in zip(starts, stops, strict=True)]


def _single(chunks: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array: a row group holds far less than an array can."""
    return chunks.chunk(0) if chunks.num_chunks == 1 else chunks.combine_chunks()


def _joined(column: pa.Array) -> tuple[Int64s, bytes]:
    """Return where each value ends, counted from the first one, and the joined bytes of all."""
    _, offsets, joined = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    # One copy of all, since a slice of bytes costs each message half of what a slice of a view does.
    return ends - ends[0], bytes(memoryview(joined)[ends[0] : ends[-1]]) if joined is not None else b""
