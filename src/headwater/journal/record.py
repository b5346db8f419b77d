"""One record of a journal: changes of files, with the engine and the epoch that wrote them.

    0   8  magic F1 "HWJNL" 0D 0A
    8   4  version, 1 to 3
    12  4  CRC of the version and of the rest
    16     the fields of `Record` as a MessagePack array

From version 2 on the array is compressed (zstd), and its length before that precedes it as 4 bytes. Records
of some size are, if that makes them smaller: a journal stores and sends each byte several times. Records of a
copy have version 3, so that releases that do not know copies refuse an unfinished one.

A change of a file is one piece or several. All pieces of a change but the last are marked with `more`. A
change whose last piece is missing is ignored.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

import msgspec
import pyarrow as pa

from headwater.checksum import crc32
from headwater.errors import CorruptionError, NewerFormatError

MAGIC = b"\xf1HWJNL\r\n"
PLAIN_VERSION, PACKED_VERSION, VERSION = 1, 2, 3
LEAST_PACKED_BYTES = 8 << 10
"""Smaller records are not compressed: they wait for a round trip, not for their bytes."""
PIECE_BYTES = 640 << 10
"""The most data of one piece. A record must stay below 1 MiB, the default limit of nats-server."""

_HEAD = Struct("<8sII")
_VERSION = _LENGTH = Struct("<I")
_MOST_BYTES = 16 << 20
"""No record is longer than this before compression."""
_zstd = pa.Codec("zstd", 1)


class RecordKind(IntEnum):
    """Why a record was written."""

    CHANGES = 0
    """Changes of files; without any, a heartbeat."""
    TAKEOVER = 1
    """An engine took over the store: nothing of an earlier engine follows."""
    CLOSED = 2
    """The engine ended: another one may take over at once."""
    COPYING = 3
    """Files of a store that is being copied into the journal: no engine may take over before a CLOSED."""


class FileOp(IntEnum):
    """What a piece does to a file."""

    WRITE = 0
    """Write data at an offset; create the file if it is missing."""
    WHOLE = 1
    """Replace the file by data."""
    TRUNCATE = 2
    """Cut the file to the length `offset`."""
    REMOVE = 3
    """Remove the file, or everything below the directory."""
    RENAME = 4
    """Rename the file, or the directory, to the name in `data`."""


class ChangePiece(msgspec.Struct, frozen=True, array_like=True):
    """A change of one file, or a part of one; the path is relative to the store."""

    op: int
    path: str
    offset: int = 0
    data: bytes = b""
    more: bool = False


class Record(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """What an engine appends at once."""

    journal: str
    """The id of the journal, chosen with its first record."""
    epoch: int
    engine: bytes
    """Random bytes that distinguish two engines."""
    owner: str
    """The process and the host of the engine, for people."""
    position: int
    floor: int
    """Records below this position are not needed any more."""
    kind: int = RecordKind.CHANGES
    pieces: tuple[ChangePiece, ...] = ()

    def encode(self) -> bytes:
        """Return the record as bytes."""
        version, body = PLAIN_VERSION, msgspec.msgpack.encode(self)
        if self.kind == RecordKind.COPYING:
            version, body = VERSION, _packed(body)
        elif LEAST_PACKED_BYTES <= len(body) <= _MOST_BYTES:
            packed = _packed(body)
            version, body = (PACKED_VERSION, packed) if len(packed) < len(body) else (version, body)
        return _HEAD.pack(MAGIC, version, crc32(body, crc32(_VERSION.pack(version)))) + body


def decode(encoded: bytes, address: str, position: int) -> Record:
    """Return the record in these bytes; refuse a damaged one and one of a newer release."""
    where = f"{address} at position {position}"
    if len(encoded) < _HEAD.size or not encoded.startswith(MAGIC):
        raise CorruptionError(where, 0, "it is not a record of a journal")
    _, version, crc = _HEAD.unpack_from(encoded)
    body = memoryview(encoded)[_HEAD.size :]
    if crc32(body, crc32(_VERSION.pack(version))) != crc:
        raise CorruptionError(where, 0, "the checksum of the record does not match")
    if version > VERSION:
        raise NewerFormatError(f"the journal {address}", version, VERSION)
    try:
        record = msgspec.msgpack.decode(body if version == PLAIN_VERSION else _unpacked(body), type=Record)
    except (msgspec.MsgspecError, pa.ArrowException, ValueError, OSError) as error:
        raise CorruptionError(where, _HEAD.size, str(error)) from error
    if record.position != position:
        raise CorruptionError(where, _HEAD.size, f"it is the record of position {record.position}")
    return record


def _packed(body: bytes) -> bytes:
    return _LENGTH.pack(len(body)) + bytes(_zstd.compress(body, asbytes=True))


def _unpacked(body: memoryview) -> bytes:
    """Return a body before it was compressed; raise ValueError if its length is impossible."""
    (length,) = _LENGTH.unpack_from(body) if len(body) > _LENGTH.size else (0,)
    if not 0 < length <= _MOST_BYTES:
        raise ValueError(f"a record of {length} bytes")
    return bytes(_zstd.decompress(body[_LENGTH.size :], length, asbytes=True))


def parts(op: FileOp, path: str, offset: int, data: bytes) -> list[ChangePiece]:
    """Return the pieces of a change that writes data, however much it is."""
    if len(data) <= PIECE_BYTES:
        return [ChangePiece(op, path, offset, data)]
    found = []
    for at in range(0, len(data), PIECE_BYTES):
        part = data[at : at + PIECE_BYTES]
        first = op if not at else FileOp.WRITE
        found.append(ChangePiece(first, path, offset + at, part, at + len(part) < len(data)))
    return found
