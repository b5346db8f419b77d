"""A cursor survives its way through a log."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.cursor import LOST, Cursor, CursorVersionError


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


@given(st.text(max_size=20), st.integers(0, 2**63 - 1), st.integers(1, 2**63 - 1))
def test_a_cursor_with_a_time_comes_back_too(identity: str, seq: int, ts: int) -> None:
    cursor = Cursor(identity, seq, ts)
    assert Cursor.decode(cursor.encode()) == cursor
    assert msgspec.msgpack.decode(cursor.encode())[0] == 2


def test_a_cursor_of_the_first_release_is_read_and_one_without_a_time_is_written_as_that() -> None:
    written = msgspec.msgpack.encode(["origin", 7])
    assert Cursor.decode(written) == Cursor("origin", 7)
    assert Cursor("origin", 7).encode() == written


def test_the_first_release_cannot_take_a_cursor_with_a_time_for_its_own() -> None:
    class First(msgspec.Struct, array_like=True):
        identity: str
        seq: int

    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(Cursor("origin", 7, 9).encode(), type=First)


@pytest.mark.parametrize("later", [[3, "origin", 7, 9, 1], ["origin"], [2, "origin", 7], {"a": 1}, 5])
def test_a_cursor_of_a_later_release_is_refused(later: object) -> None:
    with pytest.raises(CursorVersionError):
        Cursor.decode(msgspec.msgpack.encode(later))


def test_a_message_that_is_later_than_the_cursor_is_not_one_that_it_covers() -> None:
    cursor = Cursor("origin", 7, 100)
    assert cursor.covers(7, 100)
    assert cursor.covers(3, 50)
    assert not cursor.covers(7, 101)
    assert not cursor.covers(8, 50)
    assert Cursor("origin", 7).covers(7, 101)


def test_a_cursor_that_was_lost_is_of_a_version_that_older_releases_refuse() -> None:
    written = Cursor(LOST, 7).encode()
    assert msgspec.msgpack.decode(written) == [3, 7]
    assert Cursor.decode(written) == Cursor(LOST, 7)
