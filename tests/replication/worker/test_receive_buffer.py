"""Received bytes are in memory in their order, with readable margins around them."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.replication.worker.receive_buffer import MARGIN, ReceiveBuffer

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Return two connected sockets."""
    near, far = socket.socketpair()
    with near, far:
        yield near, far


def bring(pair: Pair, data: bytes, intake: ReceiveBuffer) -> None:
    """Have one side send and the other receive once."""
    near, far = pair
    far.sendall(data)
    assert intake.receive(near, 60)


def content(intake: ReceiveBuffer) -> bytes:
    """Return what is there, in memory that reaches further on both sides."""
    assert intake.start >= MARGIN
    assert intake.end <= len(intake.memory) - MARGIN
    assert len(intake) == intake.end - intake.start
    return bytes(intake.memory[intake.start : intake.end])


@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=200), st.integers(0, 250)), min_size=1, max_size=12),
    st.integers(1, 300),
)
def test_bytes_stay_in_order_however_much_is_processed_between_reads(
    pieces: list[tuple[bytes, int]], size: int
) -> None:
    near, far = socket.socketpair()
    intake, found = ReceiveBuffer(size), b""
    with near, far:
        for piece, looked_at in pieces:
            bring((near, far), piece, intake)
            intake.drain(near)
            seen = content(intake)[:looked_at]
            intake.start += len(seen)
            found += seen
        sent = b"".join(piece for piece, _ in pieces)
        while len(found) + len(intake) < len(sent):
            assert intake.receive(near, 60)
        assert found + content(intake) == sent


def test_no_more_is_read_than_there_is_room_for(pair: Pair) -> None:
    intake = ReceiveBuffer(4)
    bring(pair, b"0123456789", intake)
    intake.drain(pair[0])
    assert intake.memory == bytes(MARGIN) + b"0123" + bytes(MARGIN)


def test_what_is_left_moves_to_the_beginning_before_more_memory_is_taken(pair: Pair) -> None:
    intake = ReceiveBuffer(8)
    memory = intake.memory
    bring(pair, b"012345", intake)
    intake.start += 4
    bring(pair, b"6789ab", intake)
    assert content(intake) == b"456789ab"
    assert intake.memory is memory


def test_memory_grows_for_a_frame_that_is_larger(pair: Pair) -> None:
    intake, sent, reads = ReceiveBuffer(8), bytes(range(256)) * 20, 1
    bring(pair, sent, intake)
    while len(intake) < len(sent):
        assert intake.receive(pair[0], 60)
        reads += 1
    assert content(intake) == sent
    assert reads < 20, "it doubles"


def test_what_is_put_back_comes_before_all_others_however_much_it_is(pair: Pair) -> None:
    intake = ReceiveBuffer(8)
    intake.put_back(b"two")
    intake.put_back(b"one")
    bring(pair, b"three", intake)
    assert content(intake) == b"onetwoth"
    intake.put_back(b"zero")
    assert content(intake) == b"zeroonetwoth"


def test_all_is_taken_at_once_and_then_nothing_is_left(pair: Pair) -> None:
    intake = ReceiveBuffer()
    bring(pair, b"one", intake)
    intake.start += 1
    assert (intake.take(), len(intake), intake.take()) == (b"ne", 0, b"")
    bring(pair, b"two", intake)
    assert intake.take() == b"two"


def test_all_that_has_come_is_drained_and_nothing_more_is_waited_for() -> None:
    near, far = socket.socketpair(type=socket.SOCK_DGRAM)  # of which one read brings only what was one write
    intake = ReceiveBuffer()
    with near, far:
        intake.drain(near)
        assert not intake
        bring((near, far), b"one", intake)
        for word in (b"two", b"three", b"four"):
            far.send(word)
        intake.drain(near)
    assert content(intake) == b"onetwothreefour"


def test_the_end_of_a_connection_is_reported_and_loses_nothing(pair: Pair) -> None:
    near, far = pair
    intake = ReceiveBuffer()
    bring(pair, b"last", intake)
    far.close()
    intake.drain(near)
    assert not intake.receive(near, 60)
    assert content(intake) == b"last"


def test_silence_is_a_timeout_and_takes_nothing_away(pair: Pair) -> None:
    intake = ReceiveBuffer()
    intake.put_back(b"early ")
    with pytest.raises(TimeoutError):
        intake.receive(pair[0], 0.01)
    bring(pair, b"late", intake)
    assert content(intake) == b"early late"
