"""Messages of a bulk write as bytes, and the checks of such bytes, which any client may have made.

    [1, subjects, codes, header lengths, header blocks, data lengths, data]

Each subject is there once, and `codes` names the subject of each message. Lengths and codes are unsigned
numbers of four bytes, little endian. Without any header block the lengths of the blocks are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from headwater.errors import Error

VERSION = 1
Numbers = npt.NDArray[np.uint32]


class BulkRowsError(Error):
    """The bytes are not messages of a bulk write."""


class _EncodedRows(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: int
    subjects: list[bytes]
    codes: bytes
    header_lengths: bytes
    headers: bytes
    data_lengths: bytes
    datas: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_EncodedRows)


@dataclass(frozen=True, slots=True)
class BulkRows:
    """Messages as columns: subjects as codes, header blocks and data as lengths and joined bytes."""

    subjects: Sequence[bytes]
    """The distinct subjects."""
    codes: Numbers
    header_lengths: Numbers
    """For each message; 0 without headers."""
    headers: bytes
    data_lengths: Numbers
    datas: bytes | memoryview

    def __len__(self) -> int:
        return len(self.codes)

    def encode(self) -> bytes:
        """Return the messages as bytes."""
        lengths = self.header_lengths.astype("<u4").tobytes() if self.headers else b""
        return _encoder.encode(
            _EncodedRows(
                VERSION,
                list(self.subjects),
                self.codes.astype("<u4").tobytes(),
                lengths,
                self.headers,
                self.data_lengths.astype("<u4").tobytes(),
                bytes(self.datas),
            )
        )

    @classmethod
    def decode(cls, encoded: bytes) -> BulkRows:
        """Return the messages that these bytes encode, with every length and code checked."""
        try:
            found = _decoder.decode(encoded)
        except msgspec.MsgspecError as error:
            raise BulkRowsError(f"cannot decode messages: {error}") from None
        if found.version != VERSION:
            raise BulkRowsError(f"messages of version {found.version}, this engine reads {VERSION}")
        codes, data_lengths = _numbers(found.codes), _numbers(found.data_lengths)
        lengths = _numbers(found.header_lengths) if found.header_lengths else np.zeros(len(codes), np.uint32)
        if not len(codes) == len(lengths) == len(data_lengths):
            raise BulkRowsError("the columns have different lengths")
        if len(codes) and int(codes.max()) >= len(found.subjects):
            raise BulkRowsError("a message has no subject")
        for each, joined in ((lengths, found.headers), (data_lengths, found.datas)):
            if int(each.sum(dtype=np.int64)) != len(joined):
                raise BulkRowsError("the lengths do not add up")
        return cls(found.subjects, codes, lengths, found.headers, data_lengths, found.datas)


def _numbers(raw: bytes) -> Numbers:
    if len(raw) % 4:
        raise BulkRowsError("a column is cut off")
    return np.frombuffer(raw, "<u4")
