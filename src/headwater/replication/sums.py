"""Sums over the messages of a staged file, so that the target need not look at them again."""

from __future__ import annotations

import numpy as np
from pyroaring import BitMap64

from headwater.model.adopted import Adopted
from headwater.model.columns import Columns
from headwater.replication.rewrite import distinct
from headwater.table.parquet import FileStats


class Sums:
    """Takes every part of a file in order."""

    def __init__(self) -> None:
        self._rows = 0
        self._payload_bytes = 0
        self._with_headers = 0
        self._subjects: dict[bytes, tuple[int, int]] = {}
        self._stored = BitMap64()
        self._first_ts = 0
        self._last_ts = 0

    def add(self, columns: Columns) -> None:
        """Take one part; its sequences are the offsets in the file."""
        if not self._rows:
            self._first_ts = int(columns.ts[0])
        self._last_ts = int(columns.ts[-1])
        self._rows += len(columns)
        self._payload_bytes += len(columns.subjects) + len(columns.headers) + len(columns.datas)
        self._with_headers += int(np.count_nonzero(columns.header_lengths))
        codes, subjects = distinct(columns)
        counts = np.bincount(codes, minlength=len(subjects)).tolist()
        newest = np.zeros(len(subjects), np.int64)
        np.maximum.at(newest, codes, columns.seqs)
        for subject, count, last in zip(subjects, counts, newest.tolist(), strict=True):
            self._subjects[subject] = (self._subjects.get(subject, (0, 0))[0] + count, last)
        first, last_seq = int(columns.seqs[0]), int(columns.seqs[-1])
        if last_seq - first + 1 == len(columns):
            self._stored.add_range(first, last_seq + 1)
        else:
            self._stored.update(columns.seqs.tolist())

    def adopted(self, name: str, stats: FileStats) -> Adopted:
        """Return the sums, with what the finished file says of itself."""
        first, last = stats.first_offset, stats.last_offset
        gaps = BitMap64(range(first, last + 1)) - self._stored
        return Adopted(
            name=name,
            rows=self._rows,
            first_offset=first,
            last_offset=last,
            first_ts=self._first_ts,
            last_ts=self._last_ts,
            payload_bytes=self._payload_bytes,
            with_headers=self._with_headers,
            size_bytes=stats.size_bytes,
            first_subject=stats.first_subject,
            last_subject=stats.last_subject,
            subjects=self._subjects,
            gaps=bytes(gaps.serialize()) if gaps else b"",
        )
