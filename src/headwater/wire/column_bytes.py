"""A run of messages as bytes, for work descriptions and receipts."""

from __future__ import annotations

import msgspec
import numpy as np

from headwater.model.columns import Columns


class _Encoded(msgspec.Struct, array_like=True):
    seqs: bytes
    ts: bytes
    subject_lengths: bytes
    subjects: bytes
    header_lengths: bytes
    headers: bytes
    data_lengths: bytes
    datas: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Encoded)


def encode(columns: Columns) -> bytes:
    """Return the columns as bytes, little endian."""
    return _encoder.encode(
        _Encoded(
            columns.seqs.astype("<i8").tobytes(),
            columns.ts.astype("<i8").tobytes(),
            columns.subject_lengths.astype("<u4").tobytes(),
            bytes(columns.subjects),
            columns.header_lengths.astype("<u4").tobytes(),
            bytes(columns.headers),
            columns.data_lengths.astype("<u4").tobytes(),
            bytes(columns.datas),
        )
    )


def empty() -> Columns:
    """Return columns without a message."""
    none = np.zeros(0, np.int64)
    lengths = np.zeros(0, np.uint32)
    return Columns(none, none, lengths, b"", lengths, b"", lengths, b"")


def decode(encoded: bytes) -> Columns:
    """Return the columns that these bytes encode."""
    found = _decoder.decode(encoded)
    return Columns(
        np.frombuffer(found.seqs, "<i8"),
        np.frombuffer(found.ts, "<i8"),
        np.frombuffer(found.subject_lengths, "<u4"),
        found.subjects,
        np.frombuffer(found.header_lengths, "<u4"),
        found.headers,
        np.frombuffer(found.data_lengths, "<u4"),
        found.datas,
    )
