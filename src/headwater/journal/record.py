"""One record of a journal: changes of files, with the engine and the epoch that wrote them.

    0   8  magic F1 "HWJNL" 0D 0A
    8   4  version, 1
    12  4  CRC of the version and of the rest
    16     the fields of `Record` as a MessagePack array

A change of a file is one piece or several. All pieces of a change but the last are marked with `more`. A
change whose last piece is missing is ignored.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

import msgspec

from headwater.checksum import crc32
from headwater.errors import CorruptionError, NewerFormatError

MAGIC = b"\xf1HWJNL\r\n"
VERSION = 1
PIECE_BYTES = 640 << 10
"""The most data of one piece. A record must stay below 1 MiB, the default limit of nats-server."""

_HEAD = Struct("<8sII")
_VERSION = Struct("<I")


class RecordKind(IntEnum):
    """Why a record was written."""

    CHANGES = 0
    """Changes of files; without any, a heartbeat."""
    TAKEOVER = 1
    """An engine took over the store: nothing of an earlier engine follows."""
    CLOSED = 2
    """The engine ended: another one may take over at once."""


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
        body = msgspec.msgpack.encode(self)
        return _HEAD.pack(MAGIC, VERSION, crc32(body, crc32(_VERSION.pack(VERSION)))) + body


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
        record = msgspec.msgpack.decode(body, type=Record)
    except msgspec.MsgspecError as error:
        raise CorruptionError(where, _HEAD.size, str(error)) from error
    if record.position != position:
        raise CorruptionError(where, _HEAD.size, f"it is the record of position {record.position}")
    return record


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
