"""Data travels through skippable chunks as it was, in pieces of any size."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from headwater.wire.s2_frames import CHUNK_TYPE, MAX_CHUNK, Unframed, framed


class _InPieces:
    """Bytes that arrive a few at a time, however many are asked for."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data = io.BytesIO(data)
        self._size = size

    def read(self, size: int = -1, /) -> bytes:
        return self._data.read(self._size)


def _all(unframed: Unframed, size: int) -> bytes:
    pieces = []
    while piece := unframed.read(size):
        assert len(piece) <= size
        pieces.append(piece)
    return b"".join(pieces)


@given(st.lists(st.binary(max_size=300)), st.integers(1, 50), st.integers(1, 400))
def test_what_was_framed_comes_out_however_it_arrives(parts: list[bytes], arriving: int, asked: int) -> None:
    wire = b"".join(framed(part) for part in parts)
    unframed = Unframed(_InPieces(wire, arriving))
    assert _all(unframed, asked) == b"".join(parts)
    assert not unframed.is_foreign


def test_data_larger_than_a_chunk_takes_several() -> None:
    data = bytes(MAX_CHUNK + 5)
    wire = framed(data)
    assert len(wire) == len(data) + 2 * 4
    assert wire[0] == wire[MAX_CHUNK + 4] == CHUNK_TYPE
    assert _all(Unframed(io.BytesIO(wire)), 1 << 20) == data


def test_a_chunk_of_another_kind_is_foreign_and_gives_nothing() -> None:
    unframed = Unframed(io.BytesIO(framed(b"ours") + b"\x00\x03\x00\x00abc"))
    assert _all(unframed, 100) == b"ours"
    assert unframed.is_foreign


def test_a_head_already_read_counts_as_the_beginning() -> None:
    wire = framed(b"abcdef")
    assert _all(Unframed(io.BytesIO(wire[7:]), wire[:7]), 100) == b"abcdef"
