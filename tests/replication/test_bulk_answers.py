"""Answers taken in bulk are the very messages that single frames would give, however the socket cuts them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.model.times import parse_time
from headwater.replication import bulk_answers
from headwater.replication.bulk_answers import BulkAnswers
from headwater.wire.frames import Frame, FrameParser

INBOX, SID, STREAM = b"_INBOX.abc", b"7", b"ORDERS"
HEAD = b"HMSG _INBOX.abc 7 "
TIMES = (b"2026-11-15T07:51:18.000000042Z", b"2026-11-15T07:51:18Z", b"2026-11-15T07:51:18.5Z")


class Sink:
    """Keeps the frames that were left."""

    def __init__(self) -> None:
        self.items: list[Frame] = []

    def flush(self) -> None:
        """Keep them."""


def block(seq: int, before: int, stream: bytes = STREAM, own: bytes = b"", time: bytes = TIMES[0]) -> bytes:
    """Return the headers of an answer."""
    return (
        b"NATS/1.0\r\n%sNats-Stream: %s\r\nNats-Subject: orders.%d\r\nNats-Sequence: %d\r\n"
        b"Nats-Time-Stamp: %s\r\nNats-Num-Pending: 3\r\nNats-Last-Sequence: %d\r\n\r\n"
    ) % (own, stream, seq % 3, seq, time, before)


def frame(headers: bytes, data: bytes) -> bytes:
    """Return an answer as it comes."""
    return HEAD + b"%d %d\r\n%s%s\r\n" % (len(headers), len(headers) + len(data), headers, data)


END = frame(b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\n\r\n", b"")
Stored = tuple[int, int, bytes, bytes]


def read(
    reads: Iterator[bytes] | list[bytes], least: int = 0
) -> tuple[list[Stored], list[Frame], list[bytes]]:
    """Return what was taken in bulk, what was left as frames, and which control lines came."""
    bulk, parser, sink = BulkAnswers(INBOX, SID, STREAM), FrameParser(), Sink()
    taken: list[Stored] = []
    events: list[bytes] = []
    with patch.object(bulk_answers, "LEAST_BYTES", least):
        for data in reads:
            left = bulk.feed(data) if parser.is_between_frames else data
            for columns, _ in bulk.taken():
                assert int(columns.seqs[0]) > (_seq(sink.items[-1]) if sink.items else 0), "out of order"
                subjects, datas = bytes(columns.subjects), bytes(columns.datas)
                s = d = 0
                for row, seq in enumerate(columns.seqs.tolist()):
                    to_s, to_d = s + int(columns.subject_lengths[row]), d + int(columns.data_lengths[row])
                    taken.append((seq, int(columns.ts[row]), subjects[s:to_s], datas[d:to_d]))
                    s, d = to_s, to_d
            events += [verb for verb, _ in parser.feed(left, {SID: sink})]
    return taken, sink.items, events


def _seq(answer: Frame) -> int:
    return int(answer[2].split(b"Nats-Sequence: ")[1].split(b"\r\n")[0])


def cut(raw: bytes, places: list[int]) -> list[bytes]:
    """Return the bytes cut at these places."""
    bounds = [0, *sorted(place % (len(raw) + 1) for place in places), len(raw)]
    return [raw[a:b] for a, b in pairwise(bounds) if b > a]


datas = st.lists(
    st.one_of(
        st.binary(max_size=40), st.sampled_from([b"", b"\r\n", b"a\r\nb\r\n\r\n", HEAD, b"\r\nPING\r\n"])
    ),
    min_size=1,
    max_size=12,
)


@example([b"one", b"two", HEAD], [], TIMES[0])
@example([b"one", b"two", b"three"], [9_999], TIMES[0])
@given(datas, st.lists(st.integers(0, 10_000), max_size=6), st.sampled_from(TIMES))
def test_what_comes_is_complete_and_in_order_wherever_reads_are_cut(
    datas: list[bytes], places: list[int], time: bytes
) -> None:
    raw = b"".join(frame(block(n, n - 1, time=time), data) for n, data in enumerate(datas, 1)) + END
    taken, left, events = read(cut(raw, places))
    ns = parse_time(time.decode())
    singly = [(headers, data) for _, _, headers, data in left]
    expected = [(n, ns, b"orders.%d" % (n % 3), data) for n, data in enumerate(datas, 1)]
    assert singly[-1][0].startswith(b"NATS/1.0 204")
    numbers = [_seq(each) for each in left[:-1]]
    single = [
        (n, ns, b"orders.%d" % (n % 3), data) for n, (_, data) in zip(numbers, singly[:-1], strict=True)
    ]
    assert sorted(taken + single) == expected
    assert events == []


def test_messages_of_one_read_are_taken_in_bulk() -> None:
    raw = b"".join(frame(block(n, n - 1), b"%d" % n) for n in range(1, 101)) + END
    taken, left, _ = read([raw])
    assert [stored[0] for stored in taken] == list(range(1, 101))
    assert taken[0] == (1, 1794729078000000042, b"orders.1", b"1")
    assert len(left) == 1


def test_little_is_left_to_single_frames() -> None:
    raw = b"".join(frame(block(n, n - 1), b"%d" % n) for n in range(1, 11)) + END
    taken, left, _ = read([raw], least=bulk_answers.LEAST_BYTES)
    assert (taken, len(left)) == ([], 11)


@pytest.mark.parametrize(
    "odd",
    [
        frame(block(3, 2, own=b"Nats-Msg-Id: 3\r\n"), b"three"),
        frame(block(3, 2, stream=b"MIRROR"), b"three"),
        frame(block(3, 1), b"three"),
        frame(block(2, 2), b"three"),
        frame(block(3, 2, time=b"yesterday"), b"three"),
        frame(block(3, 2).replace(b"Nats-Num-Pending: 3\r\n", b""), b"a\r\n\r\nb"),
        HEAD.replace(b" 7 ", b" 7 reply.to ") + frame(block(3, 2), b"three").removeprefix(HEAD),
        b"PING\r\n" + frame(block(3, 2), b"three"),
    ],
    ids=["own headers", "mirror", "gap", "order", "time", "old server", "reply", "ping"],
)
def test_what_is_not_plain_is_left_whole_to_single_frames(odd: bytes) -> None:
    raw = b"".join(frame(block(n, n - 1), b"%d" % n) for n in (1, 2)) + odd + frame(block(4, 3), b"4") + END
    taken, left, events = read([raw])
    assert taken == []
    assert len(left) == 5
    assert events == ([b"PING"] if odd.startswith(b"PING") else [])


def test_a_wrong_length_is_not_believed() -> None:
    wrong = frame(block(2, 1), b"two").replace(b"\r\nNATS", b"0\r\nNATS", 1)
    bulk = BulkAnswers(INBOX, SID, STREAM)
    with patch.object(bulk_answers, "LEAST_BYTES", 0):
        raw = frame(block(1, 0), b"one") + wrong + frame(block(3, 2), b"three")
        assert bulk.feed(raw) == frame(block(1, 0), b"one"), "the rest of a long frame has yet to come"
    assert bulk.taken() == []


def test_the_end_of_a_batch_is_known_by_its_last_bytes() -> None:
    bulk = BulkAnswers(INBOX, SID, STREAM)
    headers = b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 12\r\nNats-Last-Sequence: 7\r\n\r\n"
    end, message = frame(headers, b""), frame(block(7, 6), b"seven")
    assert bulk.end_in(b"...\r\n" + message + end) == (12, 7)
    assert bulk.end_in(message + END) == (0, 0)
    for other in (
        b"",
        message,
        end[:-1],
        message + end[:-20],
        message + end + b"PING\r\n",
        end + message[:9],
    ):
        assert bulk.end_in(b"...\r\n" + other) is None
    assert bulk.end_in(frame(block(8, 7), b"\r\n" + end)[:-2]) is not None, "only as part of a message"
    assert bulk.end_in(frame(block(8, 7), b"\r\n" + end)) is None
    other_inbox = BulkAnswers(b"_INBOX.other", SID, STREAM)
    assert other_inbox.end_in(b"...\r\n" + message + end) is None
