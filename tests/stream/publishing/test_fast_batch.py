"""Fast ingest: what a reply subject says, which replies a publisher gets, and what ends a batch."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import ApiError, api_error
from headwater.stream.publishing import fast_batch
from headwater.stream.publishing.fast_batch import (
    IDLE_NS,
    Ack,
    Answer,
    DuplicateError,
    FastBatches,
    FastMessage,
    FlowReply,
    Operation,
    parse_reply,
)
from headwater.stream.retention.quota import Quota
from stream.streams import headers

START, APPEND, COMMIT, END, PING = Operation


class Publisher:
    """Publishes numbered messages into a stream that gives them 101, 102, …"""

    def __init__(self, batches: FastBatches | None = None, *, gap_ok: bool = False, flow: int = 3) -> None:
        self.batches = FastBatches(Quota()) if batches is None else batches
        self.gap_ok = gap_ok
        self.flow = flow
        self.seqs = count(101)

    def send(self, sequence: int, operation: Operation, error: Exception | None = None) -> list[Answer]:
        """Return what one message is answered; the stream refuses it with an error, if one is given."""

        def store() -> int:
            if error is not None:
                raise error
            return next(self.seqs)

        message = FastMessage(b"batch", self.flow, self.gap_ok, sequence, operation)
        return self.batches.offer(message, b"", 0, store)


def ack(seq: int, msgs: int) -> FlowReply:
    return FlowReply({"type": "ack", "seq": seq, "msgs": msgs})


def gap(last_seq: int, seq: int) -> FlowReply:
    return FlowReply({"type": "gap", "last_seq": last_seq, "seq": seq})


def done(seq: int, messages: int, **more: object) -> Ack:
    return Ack(seq, {**more, "batch": "batch", "count": messages})


WRONG = api_error("stream_not_match")


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (b"_INBOX.a.b.id.5.fail.1.0.$FI", FastMessage(b"id", 5, False, 1, START)),
        (b"p.id.5.ok.7.1.$FI", FastMessage(b"id", 5, True, 7, APPEND)),
        (b"p.id.5.ok.1.2.$FI", FastMessage(b"id", 5, True, 1, COMMIT)),
        (b"p.id.x.ok.7.3.$FI", FastMessage(b"id", 10, True, 7, END)),
        (b"p.id.0.ok.7.4.$FI", FastMessage(b"id", 10, True, 7, PING)),
        (b"p.id.99999.ok.7.4.$FI", FastMessage(b"id", 65535, True, 7, PING)),
        (b"p.id.5.ok.7.5.$FI", None),
        (b"p.id.5.ok.7.01.$FI", None),
        (b"p.id.5.maybe.7.1.$FI", None),
        (b"p.id.5.ok.0.1.$FI", None),
        (b"p.id.5.ok.x.1.$FI", None),
        (b"p.id.5.ok.99999999999999999999.1.$FI", None),
        (b"p.id.5.ok.2.0.$FI", None),
        (b"p.id.5.ok.1.1.$FI", None),
        (b"p.id.5.ok.1.3.$FI", None),
        (b"id.5.ok.1.0.$FI", None),
        (b".$FI", None),
    ],
)
def test_a_reply_subject_says_what_a_message_is_for(reply: bytes, message: FastMessage | None) -> None:
    assert parse_reply(reply) == message


def test_every_few_messages_are_acknowledged_and_the_last_one_ends_the_batch() -> None:
    publisher = Publisher()
    assert publisher.send(1, START) == [ack(0, 3)]
    assert publisher.send(2, APPEND) == []
    assert publisher.send(3, APPEND) == [ack(3, 3)]
    assert publisher.send(4, APPEND) == []
    assert publisher.send(5, COMMIT) == [done(105, 5)]
    with pytest.raises(ApiError) as caught:
        publisher.send(6, APPEND)
    assert caught.value.err_code == 10208


def test_a_batch_may_end_with_a_message_that_is_not_stored() -> None:
    publisher = Publisher()
    publisher.send(1, START)
    publisher.send(2, APPEND)
    assert publisher.send(3, END) == [done(102, 2)]


def test_one_message_alone_is_answered_once() -> None:
    assert Publisher().send(1, COMMIT) == [done(101, 1)]


def test_a_ping_repeats_the_last_acknowledgement() -> None:
    publisher = Publisher(flow=2)
    publisher.send(1, START)
    publisher.send(2, APPEND)
    publisher.send(3, APPEND)
    assert publisher.send(3, PING) == [ack(2, 2)]


def test_a_gap_ends_a_batch() -> None:
    publisher = Publisher()
    publisher.send(1, START)
    assert publisher.send(4, APPEND) == [gap(2, 4), done(101, 1)]
    assert len(publisher.batches) == 0


def test_an_allowed_gap_is_reported() -> None:
    publisher = Publisher(gap_ok=True)
    publisher.send(1, START)
    assert publisher.send(4, APPEND) == [gap(2, 4), ack(3, 3)]
    assert publisher.send(5, COMMIT) == [done(103, 5)]


@pytest.mark.parametrize("gap_ok", [False, True])
def test_a_message_sent_again_ends_a_batch(gap_ok: bool) -> None:
    publisher = Publisher(gap_ok=gap_ok)
    publisher.send(1, START)
    publisher.send(2, APPEND)
    assert publisher.send(2, APPEND) == [gap(3, 2), done(102, 2)]


def test_a_ping_finds_what_was_lost() -> None:
    publisher = Publisher()
    publisher.send(1, START)
    assert publisher.send(4, PING) == [gap(2, 5), done(101, 1)]
    allowed = Publisher(gap_ok=True)
    allowed.send(1, START)
    assert allowed.send(4, PING) == [gap(2, 5), ack(3, 3)]
    assert allowed.send(5, END) == [done(101, 4)]


def test_an_error_at_first_is_answered_as_to_a_single_message() -> None:
    publisher = Publisher()
    assert publisher.send(1, START, WRONG) == [ack(0, 3), WRONG]
    assert len(publisher.batches) == 0


def test_an_error_later_ends_a_batch_unless_gaps_are_allowed() -> None:
    reply = FlowReply(
        {"type": "err", "seq": 2, "error": {"code": 400, "err_code": 10060, "description": WRONG.description}}
    )
    publisher = Publisher()
    publisher.send(1, START)
    assert publisher.send(2, APPEND, WRONG) == [reply, done(101, 1)]
    allowed = Publisher(gap_ok=True)
    allowed.send(1, START)
    assert allowed.send(2, APPEND, WRONG) == [reply]
    assert allowed.send(3, COMMIT) == [done(102, 3)]


def test_a_duplicate_is_left_out() -> None:
    publisher = Publisher(flow=2)
    publisher.send(1, START)
    assert publisher.send(2, APPEND, DuplicateError(77)) == [ack(2, 2)]
    assert publisher.send(3, COMMIT, DuplicateError(78)) == [done(101, 3)]


def test_a_batch_of_one_duplicate_is_answered_with_the_first() -> None:
    assert Publisher().send(1, COMMIT, DuplicateError(77)) == [done(77, 1, duplicate=True)]


def test_publishers_share_what_may_go_unacknowledged() -> None:
    batches = FastBatches(Quota())
    alone = Publisher(batches, flow=1000)
    assert alone.send(1, START) == [ack(0, 500)]
    second = FastMessage(b"second", 1000, False, 1, START)
    answers = batches.offer(second, b"", 0, lambda: 1)
    assert answers[0] == ack(0, 1)
    assert answers[1] == ack(1, 2)
    for sequence in range(2, 500):
        assert alone.send(sequence, APPEND) == []
    assert alone.send(500, APPEND) == [ack(500, 250)]


def test_only_so_many_batches_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_batch, "MAX_OPEN", 1)
    publisher = Publisher()
    publisher.send(1, START)
    with pytest.raises(ApiError) as caught:
        publisher.batches.offer(FastMessage(b"more", 1, False, 1, START), b"", 0, lambda: 1)
    assert caught.value.err_code == 10211


def test_an_id_has_at_most_64_bytes() -> None:
    with pytest.raises(ApiError) as caught:
        FastBatches(Quota()).offer(FastMessage(b"x" * 65, 1, False, 1, START), b"", 0, lambda: 1)
    assert caught.value.err_code == 10207


def test_a_message_that_needs_a_higher_level_ends_the_batch() -> None:
    batches = FastBatches(Quota())
    with pytest.raises(ApiError) as caught:
        batches.offer(
            FastMessage(b"x", 1, False, 1, START), headers(Nats_Required_Api_Level="99"), 0, lambda: 1
        )
    assert caught.value.err_code == 10185
    assert len(batches) == 0


def test_a_batch_that_nothing_comes_for_is_forgotten() -> None:
    publisher = Publisher()
    publisher.send(1, START)
    assert publisher.batches.next_ns() == IDLE_NS
    publisher.batches.give_up_idle(IDLE_NS)
    assert publisher.batches.next_ns() is None


STEPS = st.tuples(st.integers(1, 12), st.sampled_from([APPEND, COMMIT, END, PING]), st.sampled_from("nnnned"))


@given(st.lists(STEPS, max_size=30), st.booleans(), st.integers(1, 5))
def test_what_is_acknowledged_was_stored(
    steps: list[tuple[int, Operation, str]], gap_ok: bool, flow: int
) -> None:
    publisher = Publisher(gap_ok=gap_ok, flow=flow)
    stored = {1}
    publisher.send(1, START)
    errors = {"e": WRONG, "d": DuplicateError(7)}
    highest = 1
    for sequence, operation, kind in steps:
        if not len(publisher.batches):
            return
        answers = publisher.send(sequence, operation, errors.get(kind))
        in_order = sequence == highest + 1 or (gap_ok and sequence > highest)
        if operation in (APPEND, COMMIT) and in_order and kind != "e":
            stored.add(sequence)
        highest = max(highest, sequence) if gap_ok or in_order else highest
        for answer in answers:
            reply = (
                answer.body.get("seq")
                if isinstance(answer, FlowReply) and answer.body["type"] == "ack"
                else 0
            )
            assert isinstance(reply, int)
            if not gap_ok:
                assert set(range(1, reply + 1)) <= stored
            if isinstance(answer, Ack) and not gap_ok:
                assert set(range(1, int(str(answer.more["count"])) + 1)) <= stored
