"""Frames of the client protocol."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.wire.frames import MAX_LINE, Event, Frame, FrameParser, ProtocolError, answers, pub, pubs, sub


class Kept:
    """A sink that keeps every frame, and each read's frames apart."""

    def __init__(self) -> None:
        self.items: list[Frame] = []
        self.reads: list[list[Frame]] = []

    def flush(self) -> None:
        self.reads.append(self.items[:])
        self.items.clear()

    @property
    def frames(self) -> list[Frame]:
        return [frame for read in self.reads for frame in read]


def fed(*chunks: bytes, sids: tuple[bytes, ...] = (b"1",)) -> tuple[Kept, list[Event]]:
    """Feed chunks one by one to a parser with one sink for all sids."""
    parser, sink = FrameParser(), Kept()
    events: list[Event] = []
    for chunk in chunks:
        events += parser.feed(chunk, dict.fromkeys(sids, sink))
        for touched in parser.touched:
            touched.flush()
    return sink, events


def msg(frame: Frame, sid: bytes = b"1") -> bytes:
    """Return a frame as the server sends it."""
    subject, reply, headers, data = frame
    args = b"%b %b " % (subject, sid) + (reply + b" " if reply else b"")
    if headers:
        return b"HMSG %b%d %d\r\n%b%b\r\n" % (args, len(headers), len(headers + data), headers, data)
    return b"MSG %b%d\r\n%b\r\n" % (args, len(data), data)


def test_a_message_with_and_without_reply() -> None:
    sink, events = fed(b"MSG a.b 1 3\r\nabc\r\nMSG c 1 _INBOX.x 0\r\n\r\n")
    assert sink.frames == [(b"a.b", b"", b"", b"abc"), (b"c", b"_INBOX.x", b"", b"")]
    assert events == []


def test_headers_are_cut_from_the_data() -> None:
    headers = b"NATS/1.0\r\nK: V\r\n\r\n"
    sink, _ = fed(msg((b"a", b"r", headers, b"data")) + msg((b"b", b"", headers, b"")))
    assert sink.frames == [(b"a", b"r", headers, b"data"), (b"b", b"", headers, b"")]


def test_a_line_end_inside_a_payload_is_data() -> None:
    data = b"\r\nMSG a 1 1\r\nx\r\n\r"
    sink, _ = fed(msg((b"a", b"", b"", b"x")) + msg((b"a", b"", b"", data)) + msg((b"a", b"", b"", b"y")))
    assert [frame[3] for frame in sink.frames] == [b"x", data, b"y"]


def test_a_subject_may_hold_any_byte_but_the_separators() -> None:
    sink, _ = fed(b"MSG a\x0bb\x0cc\xff 1 1\r\nx\r\nHMSG a\x0b 1 0 1\r\nx\r\n")
    assert [frame[0] for frame in sink.frames] == [b"a\x0bb\x0cc\xff", b"a\x0b"]


def test_control_lines_come_back_in_order_between_messages() -> None:
    sink, events = fed(
        b"INFO {\"a b\": 1} \r\nMSG a 1 1\r\nx\r\nPING\r\n-ERR 'no way'\r\n+OK\r\nPONG\r\n"
        + msg((b"b", b"", b"", b"y"))
    )
    assert [verb for verb, _ in events] == [b"INFO", b"PING", b"-ERR", b"+OK", b"PONG"]
    assert [rest for _, rest in events] == [b'{"a b": 1} ', b"", b"'no way'", b"", b""]
    assert [frame[0] for frame in sink.frames] == [b"a", b"b"]


def test_sinks_are_touched_in_the_order_of_their_first_frame_and_share_sids_in_wire_order() -> None:
    first, second = Kept(), Kept()
    parser = FrameParser()
    frames = [(b"s%d" % i, b"", b"", b"%d" % i) for i in range(6)]
    stream = b"".join(
        msg(frame, sid) for frame, sid in zip(frames, (b"2", b"1", b"3", b"2", b"9", b"1"), strict=True)
    )
    parser.feed(stream, {b"1": first, b"2": second, b"3": first})
    assert parser.touched == [second, first]
    assert first.items == [frames[1], frames[2], frames[5]]
    assert second.items == [frames[0], frames[3]]
    parser.feed(b"PING\r\n", {b"1": first})
    assert parser.touched == []


def test_a_message_for_an_ended_subscription_is_dropped() -> None:
    sink, _ = fed(msg((b"a", b"", b"", b"x"), b"7") + msg((b"b", b"", b"", b"y")))
    assert [frame[0] for frame in sink.frames] == [b"b"]


def test_a_payload_of_8_mib_arrives_in_many_reads() -> None:
    data = bytes(range(256)) * (8 << 12)
    stream = msg((b"big", b"r", b"NATS/1.0\r\n\r\n", data)) + msg((b"next", b"", b"", b"x"))
    sink, _ = fed(*(stream[at : at + 65536] for at in range(0, len(stream), 65536)))
    assert sink.frames == [(b"big", b"r", b"NATS/1.0\r\n\r\n", data), (b"next", b"", b"", b"x")]


@pytest.mark.parametrize(
    "stream",
    [
        b"HELLO\r\n",
        b"MSG a 1\r\n",
        b"MSG a 1 r x 3\r\nabc\r\n",
        b"MSG a 1 abc\r\nabc\r\n",
        b"MSG a 1 -1\r\n\r\n",
        b"MSG a 1 999999999999\r\n",
        b"HMSG a 1 9 3\r\nabc\r\n",
        b"HMSG a 1 3\r\nabc\r\n",
        b"MSG a 1 3\r\nabcdef\r\n",
        b"MSG a 1 1\r\nx\r\nnonsense\r\n",
        b"\r\n",
        b"x" * (MAX_LINE + 1),
    ],
)
def test_bytes_that_are_no_frame_raise_a_protocol_error(stream: bytes) -> None:
    with pytest.raises(ProtocolError):
        fed(stream)


def test_frames_before_a_broken_one_are_in_their_sinks() -> None:
    parser, sink = FrameParser(), Kept()
    with pytest.raises(ProtocolError, match="nonsense"):
        parser.feed(b"MSG a 1 1\r\nx\r\nnonsense\r\n", {b"1": sink})
    assert parser.touched == [sink]
    assert sink.items == [(b"a", b"", b"", b"x")]


SUBJECT = st.binary(min_size=1, max_size=12).filter(lambda name: not set(name) & set(b" \t\r\n"))
HEADERS = st.sampled_from(
    [b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0 503\r\n\r\n", b"NATS/1.0\r\nA: b\r\nC: d\r\n\r\n"]
)
DATA = st.one_of(
    st.binary(max_size=40), st.lists(st.sampled_from([b"\r", b"\n", b"MSG a 1 1", b"x"])).map(b"".join)
)
FRAME = st.tuples(SUBJECT, st.one_of(st.just(b""), SUBJECT), HEADERS, DATA)
PIECE = st.one_of(
    FRAME, FRAME, FRAME, st.sampled_from([(b"PING", b""), (b"INFO", b"{}"), (b"-ERR", b"'a b'")])
)


@given(st.lists(PIECE, max_size=12), st.lists(st.integers(1, 30)))
def test_any_chunking_of_a_stream_gives_the_same_frames(
    pieces: list[Frame | Event], sizes: list[int]
) -> None:
    frames = [piece for piece in pieces if len(piece) == 4]
    controls = [piece for piece in pieces if len(piece) == 2]
    stream = b"".join(
        msg(piece) if len(piece) == 4 else b" ".join(filter(None, piece)) + b"\r\n" for piece in pieces
    )
    chunks, at = [], 0
    for size in sizes:
        chunks.append(stream[at : at + size])
        at += size
    sink, events = fed(*chunks, stream[at:])
    assert sink.frames == frames
    assert events == controls


def test_what_is_published_is_framed_with_or_without_reply_and_headers() -> None:
    headers = b"NATS/1.0\r\n\r\n"
    cases = {
        (b"a", b"", b"", b"xyz"): b"PUB a 3\r\nxyz\r\n",
        (b"a", b"r", b"", b""): b"PUB a r 0\r\n\r\n",
        (b"a", b"", headers, b"xyz"): b"HPUB a 12 15\r\nNATS/1.0\r\n\r\nxyz\r\n",
        (b"a", b"r", headers, b""): b"HPUB a r 12 12\r\nNATS/1.0\r\n\r\n\r\n",
    }
    for frame, expected in cases.items():
        assert pub(*frame) == expected
    assert pubs(cases) == b"".join(cases.values())
    assert (
        answers([(b"i.1", b"ok"), (b"", b"asked for none"), (b"i.2", b"")])
        == b"PUB i.1 2\r\nok\r\nPUB i.2 0\r\n\r\n"
    )


@pytest.mark.parametrize("name", [b"", b"a b", b"a\r\nPUB evil 0", b" a", b"a\t"])
def test_a_subject_that_would_break_the_protocol_is_refused(name: bytes) -> None:
    with pytest.raises(ValueError, match="not a subject"):
        pub(name, b"", b"", b"")
    with pytest.raises(ValueError, match="not a subject"):
        pub(b"a", name or b" ", b"", b"")
    with pytest.raises(ValueError, match="not a subject"):
        sub(name, b"1")
