"""One atomic change of a stream, as a value and as bytes (layout: docs/internals/log.md)."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from struct import Struct, pack

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from headwater.checksum import crc32
from headwater.errors import NewerFormatError
from headwater.model.columns import Columns, Int64s, Lengths
from headwater.model.message import Message
from headwater.model.run import values_at

MAGIC = b"\xf1HWB"
VERSION = 1
MESSAGE_SIZE = 16
"""The least that a message takes: its time and the lengths of its subject and data."""
HEAD_SIZE = 72
MAX_SIZE = (1 << 32) - 1

assert sys.byteorder == "little", "the log is written in the order of bytes of this machine"

_HAS_OFFSETS = 1
_HAS_HEADERS = 2
_FLAGS = _HAS_OFFSETS | _HAS_HEADERS
_HEAD = Struct("<4sHHIIQQQIIIII4xI")
_CRC = Struct("<I")


@dataclass(frozen=True, slots=True)
class Batch:
    """One atomic change of a stream."""

    base_seq: int
    """Sequence of the first message; `last_seq + 1` if there is none."""
    timestamps: Sequence[int]
    subjects: Sequence[bytes]
    headers: Sequence[bytes]
    """Raw header blocks, empty = none."""
    datas: Sequence[bytes]
    first_seq: int
    """Of the stream, after this change."""
    last_seq: int
    """Of the stream, after this change."""
    offsets: Sequence[int] | None = None
    """Distance of each message from base_seq, ascending; None = 0, 1, 2, …"""
    removed: bytes = b""
    """Serialized BitMap64 of the sequences removed by this change, ones that it adds among them."""
    notes: bytes = b""
    """Opaque to the log."""


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The fixed part at the start of an encoded batch."""

    version: int
    flags: int
    length: int
    count: int
    base_seq: int
    first_seq: int
    last_seq: int
    subjects: int
    headers: int
    datas: int
    removed: int
    notes: int
    body_crc: int


def encode(batch: Batch) -> bytes:
    """Return the batch as bytes, by bulk work only; timestamps and offsets cost least as `array("q")`."""
    count = len(batch.timestamps)
    assert len(batch.subjects) == len(batch.headers) == len(batch.datas) == count
    lengths = f"<{count}I"
    flags = 0
    offsets = header_lengths = b""
    if batch.offsets is not None:
        assert len(batch.offsets) == count
        flags = _HAS_OFFSETS
        offsets = array("q", batch.offsets).tobytes()
    headers = b"".join(batch.headers)
    if headers:
        flags |= _HAS_HEADERS
        header_lengths = pack(lengths, *map(len, batch.headers))
    subjects = b"".join(batch.subjects)
    datas = b"".join(batch.datas)
    body = (
        array("q", batch.timestamps).tobytes(),
        offsets,
        pack(lengths, *map(len, batch.subjects)),
        header_lengths,
        pack(lengths, *map(len, batch.datas)),
        subjects,
        headers,
        datas,
        batch.removed,
        batch.notes,
    )
    length = HEAD_SIZE + sum(map(len, body))
    assert length <= MAX_SIZE
    crc = 0
    for column in body:
        crc = crc32(column, crc)
    head = _HEAD.pack(
        MAGIC,
        VERSION,
        flags,
        length,
        count,
        batch.base_seq,
        batch.first_seq,
        batch.last_seq,
        len(subjects),
        len(headers),
        len(datas),
        len(batch.removed),
        len(batch.notes),
        crc,
    )
    return b"".join((head, _CRC.pack(crc32(head)), *body))


def read_head(encoded: bytes) -> BatchHeader | None:
    """Return the header of these bytes if it is intact, whatever the body holds."""
    if len(encoded) < HEAD_SIZE or not encoded.startswith(MAGIC):
        return None
    head = encoded[: _HEAD.size]
    if _CRC.unpack_from(encoded, _HEAD.size)[0] != crc32(head):
        return None
    return BatchHeader(*_HEAD.unpack(head)[1:])


def require_known(head: BatchHeader, path: Path) -> None:
    """Refuse a batch that a newer release wrote: it is intact, so it must not be taken for damage."""
    if head.version != VERSION or head.flags & ~_FLAGS:
        raise NewerFormatError(f"a batch in {path}", f"{head.version}.{head.flags}", f"{VERSION}.{_FLAGS}")


def is_intact(encoded: bytes) -> bool:
    """Return whether these bytes are exactly one batch, as it was written."""
    head = read_head(encoded)
    return (
        head is not None
        and head.length == len(encoded)
        and crc32(memoryview(encoded)[HEAD_SIZE:]) == head.body_crc
    )


class StoredBatch:
    """A batch as readers see it: a view over intact bytes, each column decoded when first asked for."""

    def __init__(self, encoded: bytes) -> None:
        head = read_head(encoded)
        assert head is not None
        assert head.length == len(encoded)
        self.encoded = encoded
        self._head = head
        self._wide_at = HEAD_SIZE + 8 * head.count
        self._narrow_at = self._wide_at + 8 * head.count * bool(head.flags & _HAS_OFFSETS)
        narrow_columns = 3 if head.flags & _HAS_HEADERS else 2
        self._subjects_at = self._narrow_at + 4 * head.count * narrow_columns
        self._headers_at = self._subjects_at + head.subjects
        self._datas_at = self._headers_at + head.headers
        self._removed_at = self._datas_at + head.datas
        self._notes_at = self._removed_at + head.removed

    def __len__(self) -> int:
        return self._head.count

    @property
    def nbytes(self) -> int:
        """Return about how much memory the batch holds once every column is decoded."""
        return 2 * len(self.encoded) + 240 * self._head.count

    @property
    def count(self) -> int:
        """Return how many messages the batch holds."""
        return self._head.count

    @property
    def base_seq(self) -> int:
        """Return the sequence of the first message, or last_seq + 1 if there is none."""
        return self._head.base_seq

    @property
    def first_seq(self) -> int:
        """Return the first sequence of the stream after this change."""
        return self._head.first_seq

    @property
    def last_seq(self) -> int:
        """Return the last sequence of the stream after this change."""
        return self._head.last_seq

    @property
    def notes(self) -> bytes:
        """Return what the stream noted."""
        return self.encoded[self._notes_at :]

    @cached_property
    def removed(self) -> BitMap64 | None:
        """Return the sequences that this change removed, None if there are none."""
        if not self._head.removed:
            return None
        return BitMap64.deserialize(self.encoded[self._removed_at : self._notes_at])

    @cached_property
    def seqs(self) -> Int64s:
        """Return the sequences, ascending."""
        if self._head.flags & _HAS_OFFSETS:
            offsets = np.frombuffer(self.encoded, "<i8", self._head.count, self._wide_at)
            return offsets + np.int64(self._head.base_seq)
        return np.arange(self._head.base_seq, self._head.base_seq + self._head.count, dtype=np.int64)

    @property
    def ts(self) -> Int64s:
        """Return the timestamps in nanoseconds."""
        return np.frombuffer(self.encoded, "<i8", self._head.count, HEAD_SIZE)

    @property
    def sizes(self) -> Int64s:
        """Return len(subject) + len(headers) + len(data) of each message."""
        sizes = self._subject_lengths.astype(np.int64)
        sizes += self._data_lengths
        if self._head.headers:
            sizes += self._header_lengths
        return sizes

    @cached_property
    def subjects(self) -> list[bytes]:
        """Return the subject of each message."""
        return self._split(self._subject_bounds)

    @cached_property
    def headers(self) -> list[bytes]:
        """Return the header block of each message, empty = none."""
        if not self._head.headers:
            return [b""] * self._head.count
        return self._split(self._header_bounds)

    @cached_property
    def datas(self) -> list[bytes]:
        """Return the data of each message."""
        return self._split(self._data_bounds)

    @property
    def with_headers(self) -> npt.NDArray[np.bool_]:
        """Return which messages carry headers."""
        return self._header_lengths > 0

    def subject_mask(self, takes: Callable[[bytes], bool]) -> npt.NDArray[np.bool_]:
        """Return for each message whether its subject is taken."""
        return np.fromiter(map(takes, self.subjects), np.bool_, len(self))

    def payloads(self, rows: Sequence[int]) -> tuple[list[bytes], list[bytes]]:
        """Return headers and data of the messages at these rows."""
        return values_at(self.headers, rows), values_at(self.datas, rows)

    def subjects_at(self, rows: Sequence[int]) -> list[bytes]:
        """Return the subjects of the messages at these rows."""
        return values_at(self.subjects, rows)

    def message(self, index: int) -> Message:
        """Return the message at this index."""
        if index < 0:
            index += self._head.count
        subjects, datas = self._subject_bounds, self._data_bounds
        headers = b""
        if self._head.headers:
            bounds = self._header_bounds
            headers = self.encoded[bounds[index] : bounds[index + 1]]
        return Message(
            self.seqs.item(index),
            self.ts.item(index),
            self.encoded[subjects[index] : subjects[index + 1]],
            headers,
            self.encoded[datas[index] : datas[index + 1]],
        )

    def index_of(self, seq: int) -> int | None:
        """Return the row of the message with this sequence, None if it is not in the batch."""
        if self._head.flags & _HAS_OFFSETS:
            index = int(np.searchsorted(self.seqs, seq))
            return index if index < self._head.count and self.seqs[index] == seq else None
        index = seq - self._head.base_seq
        return index if 0 <= index < self._head.count else None

    def columns(self) -> Columns:
        """Return the messages as columns over the same bytes."""
        joined = memoryview(self.encoded)
        return Columns(
            self.seqs,
            self.ts,
            self._subject_lengths,
            joined[self._subjects_at : self._headers_at],
            self._header_lengths,
            joined[self._headers_at : self._datas_at],
            self._data_lengths,
            joined[self._datas_at : self._removed_at],
        )

    @property
    def _subject_lengths(self) -> Lengths:
        return np.frombuffer(self.encoded, "<u4", self._head.count, self._narrow_at)

    @property
    def _header_lengths(self) -> Lengths:
        if not self._head.headers:
            return np.zeros(self._head.count, np.uint32)
        return np.frombuffer(self.encoded, "<u4", self._head.count, self._narrow_at + 4 * self._head.count)

    @property
    def _data_lengths(self) -> Lengths:
        return np.frombuffer(self.encoded, "<u4", self._head.count, self._subjects_at - 4 * self._head.count)

    @cached_property
    def _subject_bounds(self) -> list[int]:
        return list(accumulate(self._subject_lengths.tolist(), initial=self._subjects_at))

    @cached_property
    def _header_bounds(self) -> list[int]:
        return list(accumulate(self._header_lengths.tolist(), initial=self._headers_at))

    @cached_property
    def _data_bounds(self) -> list[int]:
        return list(accumulate(self._data_lengths.tolist(), initial=self._datas_at))

    def _split(self, bounds: list[int]) -> list[bytes]:
        """Return the pieces between the bounds."""
        encoded = self.encoded
        return [encoded[start:end] for start, end in pairwise(bounds)]
