"""Pieces of a buffer are copied out of it unchanged."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.table.pages.segments import taken_out


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=20))
def test_pieces_are_what_lies_between_their_ends(raw: bytes, places: list[int]) -> None:
    bounds = sorted(min(place, len(raw)) for place in places[: len(places) // 2 * 2])
    starts, stops = np.array(bounds[::2], np.int64), np.array(bounds[1::2], np.int64)
    taken = taken_out(bytearray(raw), starts, stops)
    assert taken.to_pylist() == [raw[a:b] for a, b in zip(starts, stops, strict=True)]


def test_what_was_taken_is_a_copy() -> None:
    raw = bytearray(b"one two")
    taken = taken_out(raw, np.array([0, 4]), np.array([3, 7]))
    raw[:] = bytes(len(raw))
    assert taken.to_pylist() == [b"one", b"two"]
