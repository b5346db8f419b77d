"""Sums over the messages of one data file, stored in its footer so that a copy need not read them."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from headwater.model.columns import Int64s
from headwater.model.copied import SOURCE_HEADER
from headwater.model.headers import DEMANDS, MESSAGE_ID
from headwater.table.rows import Datas, bytes_of, data_nbytes, nbytes
from headwater.table.schema import subject_bytes
from headwater.table.source_header import ends_well

MOST_SUBJECTS = 4096
"""The most subjects that a footer lists; the sums of a file with more are computed from its rows."""
MOST_BYTES = 256 << 10
_SPARSE = 64
"""Gaps are summed only on request if the offsets of a file span more than this many times its rows."""
_MARKS = [b"\r\n" + name for name in DEMANDS]
_SOURCE_MARK = b"\r\n" + SOURCE_HEADER + b":"


class FileSums(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream must know about a file's messages; subjects are the texts that the file stores."""

    rows: int
    first_offset: int
    last_offset: int
    first_ts: int
    last_ts: int
    """The earliest and the latest time of a row."""
    payload_bytes: int
    """Subjects, headers and data of all messages together."""
    with_headers: int
    demands: bool
    """Whether a message carries what its publisher demanded of this stream, which a copy leaves out."""
    subjects: dict[str, tuple[int, int]]
    """For each subject its number of messages and the offset of the newest."""
    gaps: bytes = b""
    """Serialized BitMap64 of the offsets between first and last that hold no message."""
    tidy: bool = False
    """Whether every header block is complete and none names an origin, so that one can be added to each."""
    ids: bool = True
    """Whether a message may carry a `Nats-Msg-Id`; of a file written before this field, each may."""

    @property
    def prove_no_ids(self) -> bool:
        """Return whether no message carries a `Nats-Msg-Id`, which a duplicate window must know."""
        return not (self.with_headers and self.ids)

    @property
    def first_subject(self) -> str:
        """Return the first subject in byte order."""
        return min(self.subjects)

    @property
    def last_subject(self) -> str:
        """Return the last subject in byte order."""
        return max(self.subjects)


encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(FileSums).decode


class FileSummer:
    """Takes every part of a file in order; gives up when there are too many subjects, if there can be."""

    def __init__(
        self, most_subjects: int | None = MOST_SUBJECTS, *, may_demand: bool = True, may_have_ids: bool = True
    ) -> None:
        self._most_subjects = most_subjects
        self._may_demand = may_demand
        self._may_have_ids = may_have_ids
        self._ids = False
        """Whether a header may contain a message id."""
        self._rows = 0
        self._payload_bytes = 0
        self._with_headers = 0
        """How many rows have headers."""
        self._demands = False
        """Whether a header makes demands on the stream, such as a TTL."""
        self._tidy = True
        """Whether headers have the form that a linked file needs."""
        self._subjects: dict[str, tuple[int, int]] = {}
        """By subject, how many messages and the offset of the newest."""
        self._stored = BitMap64()
        """The offsets of all messages."""
        self._first = 0
        self._last = 0
        self._first_ts = self._last_ts = 0
        self._given_up = False
        """Whether there are too many subjects, so that there will be no sums."""

    def add(
        self,
        offsets: Int64s,
        ts: Int64s,
        subjects: pa.DictionaryArray,
        headers: pa.BinaryArray,
        datas: Datas,
    ) -> None:
        """Take one part."""
        if self._given_up:
            return
        if not self._rows:
            self._first, self._first_ts, self._last_ts = int(offsets[0]), int(ts[0]), int(ts[0])
        self._last = int(offsets[-1])
        self._first_ts, self._last_ts = min(self._first_ts, int(ts.min())), max(self._last_ts, int(ts.max()))
        self._rows += len(offsets)
        self._with_headers += len(headers) - headers.null_count
        self._payload_bytes += nbytes(headers) + data_nbytes(datas) + self._count(subjects, offsets)
        if headers.null_count < len(headers):
            self._look_at(headers)
        first, last = int(offsets[0]), int(offsets[-1])
        if last - first + 1 == len(offsets):
            self._stored.add_range(first, last + 1)
        else:
            self._stored.update(offsets.tolist())

    def _look_at(self, headers: pa.BinaryArray) -> None:
        """Record what a copy would have to change in headers."""
        looks_for_demands = self._may_demand and not self._demands
        looks_for_ids = self._may_have_ids and not self._ids
        if not (looks_for_demands or looks_for_ids or self._tidy):
            return
        block = bytes(bytes_of(headers))
        self._demands |= looks_for_demands and any(mark in block for mark in _MARKS)
        # Anywhere in the block: a value may be mistaken for an id, but no id is overlooked.
        self._ids |= looks_for_ids and MESSAGE_ID in block
        self._tidy = self._tidy and _SOURCE_MARK not in block and ends_well(headers)

    def _count(self, subjects: pa.DictionaryArray, offsets: Int64s) -> int:
        """Count the messages of each subject; return how long their subjects are together."""
        codes = subjects.indices.to_numpy()
        texts = subjects.dictionary.to_pylist()
        counts = np.bincount(codes, minlength=len(texts)).tolist()
        newest = np.zeros(len(texts), np.int64)
        newest[codes] = offsets  # of several values for one place the last one stays
        known, size = self._subjects, 0
        for text, count, last in zip(texts, counts, newest.tolist(), strict=True):
            known[text] = (known.get(text, (0, 0))[0] + count, last)
            size += count * len(subject_bytes(text))
        if self._most_subjects is not None and len(known) > self._most_subjects:
            self._given_up = True
        return size

    def sums(self) -> FileSums | None:
        """Return the sums over all parts; None if they would be too large."""
        first, last = self._first, self._last
        is_sparse = self._most_subjects is not None and last - first > _SPARSE * self._rows
        if self._given_up or is_sparse or not self._rows:
            return None
        gaps = BitMap64()
        if last - first + 1 != self._rows:
            gaps = BitMap64(range(first, last + 1)) - self._stored
        return FileSums(
            rows=self._rows,
            first_offset=first,
            last_offset=last,
            first_ts=self._first_ts,
            last_ts=self._last_ts,
            payload_bytes=self._payload_bytes,
            with_headers=self._with_headers,
            demands=self._demands,
            subjects=self._subjects,
            gaps=bytes(gaps.serialize()) if gaps else b"",
            tidy=self._tidy,
            ids=self._ids,
        )
