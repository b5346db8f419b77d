"""Deliveries that are parsed in bulk equal those of single frames, however reads are cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.model.columns import Buffer, Int64s
from headwater.model.message import Message
from headwater.replication.worker import bulk_deliveries
from headwater.replication.worker.bulk_deliveries import BulkDeliveries, DeliveredMessages
from headwater.replication.worker.receive_buffer import MARGIN, ReceiveBuffer
from headwater.table.pages.segments import taken_out
from headwater.wire.ack_subject import numbers_in, parse_ack_subject
from headwater.wire.frames import MAX_LINE, MAX_SIZE, Event, Frame, FrameParser, ProtocolError, whole_until
from replication.works import messages_in
from sinks import KeptSink

INBOX, SID, OTHER_SID = b"_INBOX.abc", b"7", b"8"
OLDER, NEWER = b"$JS.ACK.S.C.%d.%d.%d.%d.%d", b"$JS.ACK.hub.Zx9.S.C.%d.%d.%d.%d.%d._"
TS = 1_790_000_000_123_456_789
HEADERS = b"NATS/1.0\r\nColour: red\r\n\r\n"
OWN_LINE = b"MSG orders.a 7 $JS.ACK.S.C.1.6.6.100.3 2\r\n"


class Limits(NamedTuple):
    """The limits of the bulk parser."""

    least: int = bulk_deliveries.LEAST_BYTES
    single: int = bulk_deliveries.SINGLE_BYTES
    most: int = bulk_deliveries.MOST_BYTES


FULL, SMALL = Limits(), Limits(least=1)
"""With the latter, even a few messages are taken in bulk."""


class Delivered(NamedTuple):
    """A message, its number, and how many were pending after it, where that is known."""

    number: int
    message: Message
    pending: int | None


Item: TypeAlias = "Delivered | tuple[bytes, Frame] | Event"


class Single:
    """Gives what the parser of single frames finds, in its order."""

    def __init__(self, learner: BulkDeliveries | None = None) -> None:
        self.parser = FrameParser()
        self._sinks = {SID: KeptSink(), OTHER_SID: KeptSink()}
        self._learner = learner

    def items(self, raw: bytes, step: int = 1) -> Iterator[Item]:
        """Yield what bytes hold; fed one by one, they show how control lines and frames mix."""
        for at in range(0, len(raw), step):
            yield from self.parser.feed(raw[at : at + step], {**self._sinks})
            for sid, sink in self._sinks.items():
                yield from [self._item(sid, frame) for frame in sink.items]
                sink.items.clear()

    def _item(self, sid: bytes, frame: Frame) -> Item:
        subject, reply, headers, data = frame
        ack = parse_ack_subject(reply)
        if sid != SID or ack is None:
            return sid, frame
        if self._learner is not None and not self._learner.is_learned:
            self._learner.learn(reply)
        message = Message(ack.stream_seq, ack.ts, subject, headers, data)
        return Delivered(ack.consumer_seq, message, ack.pending)


class Reading:
    """Reads like a client: the parser for single frames gets what the bulk parser leaves."""

    def __init__(self, limits: Limits, step: int = 1) -> None:
        self.runs: list[int] = []
        """How many messages were taken at a time."""
        names = ("LEAST_BYTES", "SINGLE_BYTES", "MOST_BYTES", "taken_out")
        self._changed: dict[str, Any] = dict(zip(names, (*limits, _checked_taken_out), strict=True))
        self._intake = ReceiveBuffer(64)
        self._found: list[DeliveredMessages | Item] = []
        with patch.multiple(bulk_deliveries, **self._changed):
            self._bulk = BulkDeliveries(SID)
        self._single, self._step = Single(self._bulk), step

    def read(self, *reads: bytes) -> Reading:
        """Read one piece after the other."""
        with patch.multiple(bulk_deliveries, **self._changed):
            for data in reads:
                self._receive(data)
        return self

    @property
    def items(self) -> list[Item]:
        """Return everything that was found, after the receive buffer was overwritten."""
        self._intake.memory[:] = bytes(len(self._intake.memory))
        found: list[Item] = []
        for each in self._found:
            if isinstance(each, DeliveredMessages):
                messages = enumerate(messages_in(each.rows.columns()), each.first)
                found += [Delivered(n, m, each.pending if n == each.last else None) for n, m in messages]
            else:
                found.append(each)
        return found

    def _receive(self, data: bytes) -> None:
        held = self._intake
        held.put_back(held.take() + data)
        # What lies around the content looks as much like deliveries as anything can.
        behind = len(held.memory) - held.end
        held.memory[: held.start] = (OWN_LINE * held.start)[-held.start :]
        held.memory[held.end :] = (b"\n" + OWN_LINE * (behind // len(OWN_LINE) + 1))[:behind]
        pieces: list[DeliveredMessages | bytes] = [b""]
        while pieces:
            pieces, held.start = self._bulk.take(held.memory, held.start, held.end)
            for piece in pieces:
                self._keep(piece)

    def _keep(self, piece: DeliveredMessages | bytes) -> None:
        if isinstance(piece, DeliveredMessages):
            self.runs.append(len(piece.rows))
            self._found.append(piece)
            return
        for item in self._single.items(piece, self._step):
            self._found.append(item)
        assert not self._single.parser.unfinished(), "frames that are left are whole"


def _checked_taken_out(buffer: Buffer, starts: Int64s, stops: Int64s) -> pa.BinaryArray:
    """Take pieces out only if they are what they must be: otherwise the process would end, or worse."""
    assert (starts <= stops).all()
    assert (stops[:-1] <= starts[1:]).all()
    return taken_out(buffer, starts, stops)


def assert_same(found: list[Item], expected: Iterable[Item]) -> None:
    """Check that everything was found, in order; what is pending only where it is known."""
    wanted = list(expected)
    for item, other in zip(found, wanted, strict=False):
        is_known = not isinstance(item, Delivered) or item.pending is not None
        assert item == (other if is_known else (*other[:2], None))
    assert len(found) == len(wanted)


def runs_in(raw: bytes, limits: Limits = FULL, places: Iterable[int] = (), step: int = 1) -> list[int]:
    """Check that bytes cut at some places give what single frames do, and return what was taken in bulk."""
    bounds = [0, *sorted(place % (len(raw) + 1) for place in places), len(raw)]
    reading = Reading(limits, step).read(*[raw[a:b] for a, b in pairwise(bounds) if b > a])
    assert_same(reading.items, Single().items(raw, step))
    return reading.runs


def frame(subject: bytes, reply: bytes, headers: bytes | None, data: bytes, sid: bytes = SID) -> bytes:
    """Return a frame as a server sends it; headers may be none, or there but empty."""
    start = b" ".join([subject, sid, reply] if reply else [subject, sid])
    if headers is None:
        return b"MSG %s %d\r\n%s\r\n" % (start, len(data), data)
    return b"HMSG %s %d %d\r\n%s%s\r\n" % (start, len(headers), len(headers + data), headers, data)


def delivery(
    number: int, *, data: bytes = b"data", seq: int = 0, ts: int = TS, pending: int = 9, times: int = 1
) -> bytes:
    """Return a delivery that has nothing odd but what is given."""
    return frame(b"orders.a", OLDER % (times, seq or number, number, ts, pending), None, data)


def plain(*numbers: int) -> bytes:
    """Return deliveries that have nothing odd."""
    return b"".join(map(delivery, numbers))


def status(text: bytes, reply: bytes = b"") -> bytes:
    """Return what a consumer says itself."""
    return frame(INBOX, reply, b"NATS/1.0 100 %s\r\n\r\n" % text, b"")


HEARTBEAT = status(b"Idle Heartbeat\r\nNats-Last-Consumer: 3")
STALLED = status(b"Idle Heartbeat\r\nNats-Last-Consumer: 3\r\nNats-Consumer-Stalled: $JS.FC.S.C.8")
ASKING = status(b"Idle Heartbeat", b"$JS.FC.S.C.7")
FLOW_CONTROL = status(b"FlowControl Request", b"$JS.FC.S.C.9")
LINES = (b"PING\r\n", b"+OK\r\n", b'INFO {"a": "MSG x 1 5"}\r\n')
OTHERS = (
    frame(INBOX, b"", None, b"without a reply"),
    frame(b"a", OLDER % (1, 3, 3, TS, 1), None, b"of another", OTHER_SID),
    frame(b"a", b"", HEADERS, OWN_LINE, OTHER_SID),
    frame(b"a", OLDER % (1, 3, 3, TS, 1), None, b"of nobody", b"77"),
)
LOOKS = (
    b"MSG ",
    b"\r\nHMSG ",
    b"\r\nMSG x 1 5\r\n",
    b"\r\n" + OWN_LINE,
    OWN_LINE + b"ab\r\n",
    b"\r\nPING\r\n",
)
BITS = (b"\r\n", b"\r", b"\n", b" ", b".", b" 7 $JS.ACK.S.C.1.9.", OWN_LINE[:-5], b"x" * 150)
datas = st.lists(st.one_of(st.sampled_from(LOOKS + BITS), st.binary(max_size=20)), max_size=3).map(b"".join)
deliveries = st.tuples(
    st.sampled_from([1, 1, 1, 2, 90, 10**6, 10**12]),
    st.sampled_from([b"a", b"orders.a", b"orders.eu.4711", "zoë.ü".encode(), b"\xff.\xfe", b"x." * 60]),
    st.sampled_from([None, None, None, HEADERS, b"", b"N", HEADERS + b"\r\nMSG x 1 5\r\n"]),
    datas,
)
odd_ones = st.sampled_from(
    [b"", b"lost", b"again", HEARTBEAT, STALLED, ASKING, FLOW_CONTROL, *LINES, *OTHERS]
)
limits = st.builds(
    Limits, st.sampled_from([1, 100, 500]), st.sampled_from([1, 200, 2000]), st.sampled_from([600, 1 << 20])
)
PLAIN = [(1, b"orders.a", None, b"data")] * 20


@example([(PLAIN, HEARTBEAT), (PLAIN, b"lost"), (PLAIN, b"again"), (PLAIN, b"")], 1, OLDER, [700], SMALL)
@settings(max_examples=250)
@given(
    st.lists(st.tuples(st.lists(deliveries, min_size=1, max_size=20), odd_ones), min_size=1, max_size=4),
    st.sampled_from([1, 95, 99_990]),
    st.sampled_from([OLDER, NEWER]),
    st.lists(st.integers(0, 20_000), max_size=6),
    limits,
)
def test_what_comes_is_what_single_frames_give_wherever_reads_are_cut(
    batches: list[tuple[list[tuple[int, bytes, bytes | None, bytes]], bytes]],
    number: int,
    form: bytes,
    places: list[int],
    limits: Limits,
) -> None:
    raw, seq, times = b"", 8, 1
    for run, odd in batches:
        for gap, subject, headers, data in run:
            seq += gap
            reply = form % (times, seq, number, TS + 97 * seq, abs(100_003 - number))
            raw += frame(subject, reply, headers, data)
            number, times = number + 1, 1
        if odd in (b"again", b"lost"):
            times, number = 1 + (odd == b"again"), number + (odd == b"lost")
        else:
            raw += odd
    runs_in(raw, limits, places)


@pytest.mark.parametrize(("count", "size"), [(40_000, 128), (20_000, 1024)])
@pytest.mark.parametrize("headers", [None, HEADERS])
def test_many_messages_are_taken_in_few_pieces(count: int, size: int, headers: bytes | None) -> None:
    replies = [NEWER % (1, 3 * n, n, TS + n, count - n) for n in range(1, count + 1)]
    rows = [
        frame(b"a.%d" % (n % 997), reply, headers, b"%0*d" % (size, n)) for n, reply in enumerate(replies)
    ]
    raw = b"".join(rows)
    places = range(3_000_001, len(raw), 3_000_001)
    runs = runs_in(raw, FULL, places, step=1 << 20)
    assert sum(runs) == count - 1, "all but the first, which shows what they look like"
    assert len(runs) <= len(places) + 2


def test_what_the_consumer_says_comes_at_its_place_and_messages_stay_in_bulk() -> None:
    parts = [plain(*range(n, n + 500)) + HEARTBEAT + FLOW_CONTROL for n in range(2, 5_002, 500)]
    assert runs_in(plain(1) + b"".join(parts)) == [500] * 10


def test_a_control_line_among_many_messages_costs_little() -> None:
    runs = runs_in(plain(*range(1, 5_001)) + b"PING\r\n" + plain(*range(5_001, 10_001)))
    assert sum(runs) > 8_000
    assert len(runs) < 5


def test_messages_that_look_like_frames_are_right_and_those_behind_them_in_bulk_again() -> None:
    looks = [delivery(n, data=b"a\r\nMSG " if n % 9 else b"plain") for n in range(1, 5_001)]
    raw = b"".join(looks) + plain(*range(5_001, 25_001))
    runs = runs_in(raw, places=range(0, len(raw), 300_007), step=1 << 20)
    assert sum(runs) > 18_000
    assert max(runs) > 4_000


def test_large_messages_are_in_bulk_again_after_some_that_came_slowly() -> None:
    raw = b"".join([delivery(n, data=bytes(100_000)) for n in range(1, 61)])
    assert sum(runs_in(raw, places=range(0, 400_000, 20_000), step=1 << 20)) > 50


def test_little_is_left_to_single_frames() -> None:
    assert runs_in(plain(*range(1, 101))) == []
    assert runs_in(plain(*range(1, 101)), SMALL) == [99]


def test_data_longer_than_the_window_is_waited_for() -> None:
    raw = plain(1, 2) + delivery(3, data=bytes(range(256)) * 1000) + plain(4, 5)
    assert runs_in(raw, Limits(1, 1000, 1000), range(0, len(raw), 25_000)) == [1, 2]


@pytest.mark.parametrize(
    ("numbers", "seqs"),
    [([1, 2, 4, 5], [1, 2, 4, 5]), ([1, 3, 2, 4], [1, 2, 3, 4]), ([1, 2, 3, 4], [1, 3, 2, 4])],
    ids=["missing", "out of order", "sequences"],
)
def test_a_run_hides_nothing_that_is_missing_or_out_of_order(numbers: list[int], seqs: list[int]) -> None:
    raw = b"".join([delivery(n, seq=seq) for n, seq in zip(numbers, seqs, strict=True)])
    assert runs_in(plain(0) + raw, SMALL) == []


def test_a_message_that_is_delivered_again_goes_the_single_way() -> None:
    again = [delivery(number, times=2) for number in range(51, 55)]
    raw = plain(*range(1, 51)) + b"".join(again) + plain(*range(55, 101))
    assert 0 < sum(runs_in(raw, Limits(1, 200))) <= 95


@pytest.mark.parametrize("digits", range(1, 20))
def test_numbers_of_any_length_are_read(digits: int) -> None:
    most = min(10**digits, 2**63) - 1
    assert runs_in(plain(1, 2, 3) + delivery(4, seq=most, ts=most, pending=most), SMALL) == [3]


@pytest.mark.parametrize("place", ["number", "seq", "ts", "pending"])
@pytest.mark.parametrize("value", [2**63, 10**19 - 1, 2**64 - 1, 2**64 + 3])
def test_numbers_that_are_too_large_go_the_single_way(place: str, value: int) -> None:
    numbers: list[dict[str, Any]] = [{"number": n, "seq": n, place: value - 3 + n} for n in (2, 3)]
    assert sum(runs_in(plain(0, 1) + b"".join([delivery(**each) for each in numbers]), SMALL)) <= 1


ACK = b"$JS.ACK.S.C.1.9.9.9.9"


@pytest.mark.parametrize(
    "line",
    [
        *(b"HELLO", b"", b"MSG", b"MSG a", b"MSG a 7 " + ACK, b"MSG a b 7 %s 4" % ACK),
        *(b"MSG a 7 %s %s" % (ACK, size) for size in (b"x", b"-1", b"", b"1x", b"0x4", b" 4", b"3", b"5")),
        *(b"MSG a 7 %s %d" % (ACK, size) for size in (MAX_SIZE + 1, 2**63 - 1, 10**19)),
        *(b"HMSG a 7 %s %s 4" % (ACK, size) for size in (b"5", b"x")),
        b"HMSG a 7 %s.0 4" % ACK,
        *(b"HMSGab 7 %s 0 4" % ACK, b"MSG a 7 %s.4" % ACK, b"MSG a 7 $JS.ACK.S.C.1.9 9.9.9 4"),
    ],
    ids=repr,
)
def test_what_is_no_frame_is_refused_after_what_comes_before_it(line: bytes) -> None:
    before, behind = plain(*range(1, 9)), b"\r\ndata\r\n" + plain(*range(10, 50))
    with pytest.raises(ProtocolError):
        FrameParser().feed(line + behind, {})
    reading = Reading(SMALL)
    with pytest.raises(ProtocolError):
        reading.read(before + line + behind)
    assert_same(reading.items, Single().items(before))


@pytest.mark.parametrize("end", [b"\rX", b"X\n", b"\n\r"])
def test_data_that_ends_without_a_line_end_is_refused(end: bytes) -> None:
    before, odd = plain(*range(1, 8)), delivery(8).removesuffix(b"\r\n") + end
    reading = Reading(SMALL)
    with pytest.raises(ProtocolError):
        reading.read(before + odd + plain(*range(9, 50)))
    assert_same(reading.items, Single().items(before))


def test_a_line_without_an_end_is_refused() -> None:
    with pytest.raises(ProtocolError):
        Reading(SMALL, step=1 << 20).read(plain(1, 2) + b"MSG " + b"a" * MAX_LINE)


@pytest.mark.parametrize("numbers", [b"9.9.9.x", b"9.9.9.", b"9.9..9", b"9.x.9.9", b".9.9.9", b"9.9.9"])
def test_a_reply_without_numbers_is_left_to_the_slow_parser(numbers: bytes) -> None:
    odd = frame(b"a", b"$JS.ACK.S.C.1." + numbers, None, b"data")
    runs_in(plain(*range(1, 9)) + odd + plain(*range(10, 50)), SMALL)


def test_a_subject_and_a_sid_that_look_like_our_sid_and_a_reply_are_none_of_ours() -> None:
    runs_in(plain(*range(1, 9)) + b"MSG 7 %s 4\r\ndata\r\n" % ACK + plain(*range(10, 50)), SMALL)


def test_a_blank_where_the_newer_form_has_a_dot_is_refused() -> None:
    rows = [frame(b"a", NEWER % (1, n, n, TS, 9), None, b"data") for n in range(1, 50)]
    rows[8] = rows[8].replace(b".9._ 4", b".9 _ 4")
    with pytest.raises(ProtocolError):
        Reading(SMALL).read(b"".join(rows))


def test_what_data_says_is_not_the_reply_of_the_frame_behind_it() -> None:
    form = NEWER + b".more"
    rows = [frame(b"a", form % (1, n, n, TS, 9), None, b"data") for n in range(1, 50)]
    rows[8] = frame(b"a", form % (1, 9, 9, TS, 9), None, b" 7 " + form[:-7] % (1, 10, 10, 5, 5))
    rows[9] = frame(b"x", b"", None, b"hello", OTHER_SID)
    runs_in(b"".join(rows), SMALL)


@pytest.mark.parametrize(("length", "runs"), [(MARGIN - 150, [7]), (MARGIN, [])])
def test_only_replies_with_a_very_long_beginning_are_not_taken_in_bulk(length: int, runs: list[int]) -> None:
    form = OLDER.replace(b".C.", b".%s." % (b"C" * length))
    raw = b"".join([frame(b"a", form % (1, n, n, TS, 9), None, b"") for n in range(1, 9)])
    assert runs_in(raw, SMALL) == runs


def test_whole_frames_end_where_their_lengths_say() -> None:
    lines = [HEARTBEAT, b"PING\r\n", delivery(1, data=b"a\r\nb"), b"HELLO\r\n", b"MSG a 7 x\r\n"]
    ends = [3, *(3 + np.cumsum([len(line) for line in lines])).tolist()]
    raw = bytearray(b"..." + b"".join(lines) + delivery(2)[:-1])
    for start, end in pairwise(ends):
        assert whole_until(raw, start, len(raw), 1) == end
        assert whole_until(raw, start, end - 1, 1) == start, "a byte is missing"
    assert whole_until(raw, 3, len(raw), ends[2] - 3) == ends[2]
    assert whole_until(raw, 3, len(raw), ends[2] - 2) == ends[3]
    assert whole_until(raw, 3, len(raw), 1 << 20) == ends[-1], "the last one is not whole"


@pytest.mark.parametrize("form", [OLDER, NEWER, NEWER.removesuffix(b"._"), NEWER + b".and.more"])
def test_the_numbers_of_an_ack_subject_are_found(form: bytes) -> None:
    reply = form % (1, 22, 333, 4444, 55555)
    start, stop = numbers_in(reply)
    assert reply[start:stop] == b"22.333.4444.55555"


def test_pieces_are_taken_out_of_a_buffer_by_copy() -> None:
    buffer = bytearray(b"0123456789")
    taken = taken_out(buffer, np.array([0, 2, 5, 5, 9]), np.array([1, 5, 5, 7, 10]))
    buffer[:] = bytes(10)
    assert taken.to_pylist() == [b"0", b"234", b"", b"56", b"9"]
    assert len(taken_out(buffer, np.array([], np.int64), np.array([], np.int64))) == 0
