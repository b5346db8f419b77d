"""Records of a journal as bytes: what was written is read back, and nothing else is."""

from __future__ import annotations

from random import Random
from struct import pack

import pytest

from headwater.checksum import crc32
from headwater.errors import CorruptionError, NewerFormatError
from headwater.journal.record import (
    MAGIC,
    PACKED_VERSION,
    PIECE_BYTES,
    PLAIN_VERSION,
    VERSION,
    ChangePiece,
    FileOp,
    Record,
    decode,
    parts,
)


def record(*pieces: ChangePiece) -> Record:
    return Record(
        journal="id", epoch=3, engine=b"e" * 16, owner="process 1 on a", position=7, floor=2, pieces=pieces
    )


def test_a_record_is_read_back() -> None:
    made = record(ChangePiece(FileOp.WRITE, "a/b", 5, b"data"), ChangePiece(FileOp.REMOVE, "a"))
    assert decode(made.encode(), "there", 7) == made


def test_every_changed_byte_is_noticed() -> None:
    encoded = record(ChangePiece(FileOp.WHOLE, "a", 0, b"data")).encode()
    for at in range(len(encoded)):
        damaged = bytearray(encoded)
        damaged[at] ^= 1
        with pytest.raises(CorruptionError):
            decode(bytes(damaged), "there", 7)
    with pytest.raises(CorruptionError):
        decode(encoded[:-1], "there", 7)


def test_a_record_of_another_position_is_refused() -> None:
    with pytest.raises(CorruptionError, match="position 7"):
        decode(record().encode(), "there", 8)


def test_a_long_record_is_compressed_if_that_makes_it_shorter() -> None:
    text = record(ChangePiece(FileOp.WRITE, "a", 0, b'{"id": 7, "state": "shipped"}' * 20_000))
    assert len(text.encode()) < len(text.pieces[0].data) // 10
    assert text.encode()[8] == PACKED_VERSION
    assert decode(text.encode(), "there", 7) == text
    random = record(ChangePiece(FileOp.WRITE, "a", 0, Random(1).randbytes(PIECE_BYTES)))
    assert random.encode()[8] == PLAIN_VERSION
    assert decode(random.encode(), "there", 7) == random
    assert record(ChangePiece(FileOp.WRITE, "a", 0, b"a" * 4096)).encode()[8] == PLAIN_VERSION


def test_every_changed_byte_of_a_compressed_record_is_noticed() -> None:
    encoded = record(ChangePiece(FileOp.WHOLE, "a", 0, b"data" * 4096)).encode()
    assert encoded[8] == PACKED_VERSION
    for at in range(len(encoded)):
        damaged = bytearray(encoded)
        damaged[at] ^= 1
        with pytest.raises(CorruptionError):
            decode(bytes(damaged), "there", 7)


@pytest.mark.parametrize("body", [b"", b"\1", bytes(40), b"\xff" * 40, pack("<I", 100) + b"no zstd" * 9])
def test_bytes_that_cannot_be_decompressed_are_damage(body: bytes) -> None:
    head = pack("<8sII", MAGIC, VERSION, crc32(body, crc32(pack("<I", VERSION))))
    with pytest.raises(CorruptionError):
        decode(head + body, "there", 7)


def test_a_record_of_a_newer_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.journal.record.PLAIN_VERSION", VERSION + 1)
    newer = record().encode()
    monkeypatch.undo()
    with pytest.raises(NewerFormatError):
        decode(newer, "there", 7)


def test_a_large_change_is_split_and_only_its_last_piece_ends_it() -> None:
    data = bytes(range(256)) * 8192
    found = parts(FileOp.WHOLE, "a", 0, data)
    assert [piece.more for piece in found] == [True, True, True, False]
    assert [piece.op for piece in found] == [FileOp.WHOLE, FileOp.WRITE, FileOp.WRITE, FileOp.WRITE]
    assert b"".join(piece.data for piece in found) == data
    assert [piece.offset for piece in found] == [n * PIECE_BYTES for n in range(4)]
    assert parts(FileOp.WHOLE, "a", 0, b"") == [ChangePiece(FileOp.WHOLE, "a")]
