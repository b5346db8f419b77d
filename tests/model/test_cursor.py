"""A cursor survives its way through a log."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.model.cursor import Cursor


@given(st.text(max_size=20), st.integers(0, 2**63 - 1))
def test_a_cursor_comes_back_from_its_bytes(identity: str, seq: int) -> None:
    cursor = Cursor(identity, seq)
    assert Cursor.decode(cursor.encode()) == cursor


def test_no_bytes_are_the_beginning_of_no_origin() -> None:
    assert Cursor.decode(b"") == Cursor("", 0)


def test_equal_places_have_equal_bytes_and_others_do_not() -> None:
    assert Cursor("a", 1).encode() == Cursor("a", 1).encode()
    assert Cursor("a", 1).encode() != Cursor("a", 2).encode()
    assert Cursor("a", 1).encode() != Cursor("b", 1).encode()
