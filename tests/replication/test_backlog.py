"""What a socket brings comes out of a backlog as it went in, cut where its reader said."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.replication import backlog as module
from headwater.replication.backlog import TAIL_BYTES, Backlog

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Return two connected sockets."""
    near, far = socket.socketpair()
    with near, far:
        yield near, far


def never(tail: bytes) -> bool:
    """Cut nowhere."""
    return False


def taken(backlog: Backlog) -> list[bytes]:
    """Return all chunks."""
    chunks = []
    while backlog:
        chunks.append(bytes(backlog.take()))
    return chunks


@given(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=12), st.integers(1, 64))
def test_bytes_come_out_in_the_order_they_came_in(pieces: list[bytes], chunk_bytes: int) -> None:
    near, far = socket.socketpair()
    with near, far, pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "CHUNK_BYTES", chunk_bytes)
        backlog, found = Backlog(), b""
        for piece in pieces:
            far.sendall(piece)
            assert backlog.receive(near, 60)
            backlog.drain(near, never)
            found += bytes(backlog.take())
        chunks = taken(backlog)
        assert found + b"".join(chunks) == b"".join(pieces)
        assert all(len(chunk) <= chunk_bytes for chunk in chunks)
        assert (backlog.received, len(backlog)) == (sum(map(len, pieces)), 0)


def test_a_chunk_ends_where_its_reader_says(pair: Pair) -> None:
    near, far = pair
    backlog = Backlog()
    far.sendall(b"one.")
    assert backlog.receive(near, 60)
    sent = [b"two.", b"three"]

    def is_cut(tail: bytes) -> bool:
        if sent:
            far.sendall(sent.pop(0))
        return tail.endswith(b".")

    backlog.drain(near, is_cut)
    assert taken(backlog) == [b"one.", b"two.", b"three"]


def test_a_reader_sees_the_end_of_all_that_came(pair: Pair) -> None:
    near, far = pair
    backlog = Backlog()
    tails: list[bytes] = []

    def is_cut(tail: bytes) -> bool:
        tails.append(tail)
        return False

    for piece in (b"x" * TAIL_BYTES, b"yz"):
        far.sendall(piece)
        assert backlog.receive(near, 60)
    backlog.drain(near, is_cut)
    assert tails == [b"x" * (TAIL_BYTES - 2) + b"yz"]


def test_what_is_too_much_stays_with_the_system(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 8)
    monkeypatch.setattr(module, "CHUNK_BYTES", 4)
    near, far = pair
    far.sendall(b"0123456789ab")
    backlog = Backlog()
    assert backlog.receive(near, 60)
    backlog.drain(near, never)
    assert len(backlog) == 8
    assert taken(backlog) == [b"0123", b"4567"]
    backlog.drain(near, never)
    assert taken(backlog) == [b"89ab"]


def test_a_chunk_that_was_lent_out_is_used_again_only_after_the_next(pair: Pair) -> None:
    near, far = pair
    backlog = Backlog()
    far.sendall(b"one")
    assert backlog.receive(near, 60)
    first = backlog.take()
    far.sendall(b"two")
    assert backlog.receive(near, 60)
    assert bytes(first) == b"one"
    assert bytes(backlog.take()) == b"two"
    far.sendall(b"3")
    assert backlog.receive(near, 60)
    assert bytes(first) == b"3ne"


def test_the_end_of_a_connection_is_told(pair: Pair) -> None:
    near, far = pair
    far.sendall(b"last")
    far.close()
    backlog = Backlog()
    assert backlog.receive(near, 60)
    backlog.drain(near, never)
    assert taken(backlog) == [b"last"]
    assert not backlog.receive(near, 60)
    assert not backlog


def test_silence_is_a_timeout_and_leaves_nothing(pair: Pair) -> None:
    near, far = pair
    backlog = Backlog()
    with pytest.raises(TimeoutError):
        backlog.receive(near, 0.01)
    far.sendall(b"late")
    assert backlog.receive(near, 60)
    assert taken(backlog) == [b"late"]
