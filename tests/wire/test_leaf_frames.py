"""Frames of the leaf protocol."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.wire.frames import MAX_LINE, Event, Frame, ProtocolError
from headwater.wire.leaf_frames import LeafParser, lmsg, lmsgs, subscribe, unsubscribe

HEADERS = b"NATS/1.0\r\nK: V\r\n\r\n"


def fed(*chunks: bytes) -> tuple[list[Frame], list[Event]]:
    """Feed chunks one by one to one parser."""
    parser = LeafParser()
    frames: list[Frame] = []
    events = [event for chunk in chunks for event in parser.feed(chunk, frames)]
    return frames, events


def test_messages_are_encoded_with_and_without_reply_headers_and_queues() -> None:
    assert lmsg(b"a", b"", b"", b"xyz") == b"LMSG a 3\r\nxyz\r\n"
    assert lmsg(b"a", b"r", b"", b"") == b"LMSG a r 0\r\n\r\n"
    assert lmsg(b"a", b"r", b"", b"x", [b"q", b"p"]) == b"LMSG a + r q p 1\r\nx\r\n"
    assert lmsg(b"a", b"", b"", b"x", [b"q"]) == b"LMSG a | q 1\r\nx\r\n"
    assert lmsg(b"a", b"r", HEADERS, b"x") == b"HMSG a r 18 19\r\n" + HEADERS + b"x\r\n"
    assert lmsg(b"a", b"", HEADERS, b"x", [b"q"]) == b"HMSG a | q 18 19\r\n" + HEADERS + b"x\r\n"


def test_many_messages_are_the_same_as_each_alone() -> None:
    messages = [(b"r1", b"", b"x"), (b"", HEADERS, b"y")]
    assert lmsgs(b"a", messages) == lmsg(b"a", b"r1", b"", b"x") + lmsg(b"a", b"", HEADERS, b"y")


def test_interest_is_parsed() -> None:
    assert subscribe(b"a.>") + unsubscribe(b"a.>") == b"LS+ a.>\r\nLS- a.>\r\n"
    assert subscribe(b"a", b"q") + unsubscribe(b"a", b"q") == b"LS+ a q 1\r\nLS- a q\r\n"


def test_control_lines_and_interest_come_back_in_order() -> None:
    _, events = fed(b"INFO {}\r\nLS+ a.* q 2\r\nPING\r\nLS- a.* q\r\n-ERR 'no'\r\n")
    assert events == [
        (b"INFO", b"{}"),
        (b"LS+", b"a.* q 2"),
        (b"PING", b""),
        (b"LS-", b"a.* q"),
        (b"-ERR", b"'no'"),
    ]


@pytest.mark.parametrize(
    "stream",
    [
        b"MSG a 1 0\r\n\r\n",
        b"LMSG a\r\n",
        b"LMSG a +\r\n",
        b"LMSG a r x 0\r\n\r\n",
        b"LMSG a -1\r\n\r\n",
        b"HMSG a 5 3\r\nabc\r\n",
        b"HMSG 3\r\nabc\r\n",
        b"LMSG a 1\r\nxyz\r\n",
        b"LMSG a 99999999999\r\n",
        b"x" * (MAX_LINE + 1),
    ],
)
def test_bytes_that_are_no_frame_raise_a_protocol_error(stream: bytes) -> None:
    with pytest.raises(ProtocolError):
        fed(stream)


WORD = st.binary(min_size=1, max_size=8).filter(lambda word: not set(word) & set(b" \t\r\n|+"))
FRAME = st.tuples(
    WORD, st.one_of(st.just(b""), WORD), st.sampled_from([b"", HEADERS]), st.binary(max_size=30)
)


@given(st.lists(st.tuples(FRAME, st.lists(WORD, max_size=2))), st.lists(st.integers(1, 40)))
def test_any_chunking_of_a_stream_gives_the_same_frames(
    messages: list[tuple[Frame, list[bytes]]], sizes: list[int]
) -> None:
    stream = b"".join(b"PING\r\n" + lmsg(*frame, queues) for frame, queues in messages)
    chunks, at = [], 0
    for size in sizes:
        chunks.append(stream[at : at + size])
        at += size
    frames, events = fed(*chunks, stream[at:])
    assert frames == [frame for frame, _ in messages]
    assert events == [(b"PING", b"")] * len(messages)
