"""A run of messages as columns: lengths and joined bytes, ready for Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headwater.model.message import Message

Int64s = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.uint32]
Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Columns:
    """Messages in ascending sequence; `<c>_lengths` splits the joined bytes of column c."""

    seqs: Int64s
    ts: Int64s
    subject_lengths: Lengths
    subjects: Buffer
    header_lengths: Lengths
    headers: Buffer
    data_lengths: Lengths
    datas: Buffer

    def __len__(self) -> int:
        return len(self.seqs)


def columns_of(messages: Sequence[Message]) -> Columns:
    """Return messages as columns."""
    seqs, ts, subjects, headers, datas = zip(*messages, strict=True)
    count = len(messages)
    return Columns(
        np.array(seqs, np.int64),
        np.array(ts, np.int64),
        np.fromiter(map(len, subjects), np.uint32, count),
        b"".join(subjects),
        np.fromiter(map(len, headers), np.uint32, count),
        b"".join(headers),
        np.fromiter(map(len, datas), np.uint32, count),
        b"".join(datas),
    )


def concat(parts: Sequence[Columns]) -> Columns:
    """Return the parts as one run."""
    if len(parts) == 1:
        return parts[0]
    return Columns(
        np.concatenate([p.seqs for p in parts]),
        np.concatenate([p.ts for p in parts]),
        np.concatenate([p.subject_lengths for p in parts]),
        b"".join(p.subjects for p in parts),
        np.concatenate([p.header_lengths for p in parts]),
        b"".join(p.headers for p in parts),
        np.concatenate([p.data_lengths for p in parts]),
        b"".join(p.datas for p in parts),
    )


def keep(columns: Columns, mask: npt.NDArray[np.bool_]) -> Columns:
    """Return only the rows where the mask is true."""
    if mask.all():
        return columns
    return Columns(
        columns.seqs[mask],
        columns.ts[mask],
        columns.subject_lengths[mask],
        _keep_bytes(columns.subjects, columns.subject_lengths, mask),
        columns.header_lengths[mask],
        _keep_bytes(columns.headers, columns.header_lengths, mask),
        columns.data_lengths[mask],
        _keep_bytes(columns.datas, columns.data_lengths, mask),
    )


def _keep_bytes(joined: Buffer, lengths: Lengths, mask: npt.NDArray[np.bool_]) -> bytes:
    """Return the joined bytes of the kept rows only."""
    per_byte = np.repeat(mask, lengths)
    return np.frombuffer(joined, dtype=np.uint8)[per_byte].tobytes()
