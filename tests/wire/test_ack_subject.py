"""Ack subjects are written and read back, in both forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.wire.ack_subject import (
    AckScope,
    AckSubject,
    AckSubjects,
    parse_ack_subject,
    read_ack,
)

NUMBERS = st.integers(0, 2**63 - 1)
NAMES = st.text(st.characters(exclude_characters=" .*>\t\r\n\f", codec="utf-8"), min_size=1, max_size=20)


def test_a_delivery_has_nine_tokens() -> None:
    acks = AckSubjects("ORDERS", "c")
    assert acks.format(2, 7, 9, 1700000000000000001, 4) == b"$JS.ACK.ORDERS.c.2.7.9.1700000000000000001.4"


def test_a_run_counts_up_and_what_is_pending_counts_down() -> None:
    acks = AckSubjects("S%d", "c%")
    assert acks.format_run([5, 8, 9], [1, 2, 3], 10, 6, 3) == [
        acks.format(1, 5, 10, 1, 6),
        acks.format(1, 8, 11, 2, 5),
        acks.format(1, 9, 12, 3, 4),
    ]
    assert acks.format_run([], [], 10, 6, 0) == []


@given(NAMES, NAMES, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_what_was_written_is_read_back(
    stream: str, consumer: str, count: int, seq: int, consumer_seq: int, ts: int, pending: int
) -> None:
    acks = AckSubjects(stream, consumer)
    written = acks.format(count, seq, consumer_seq, ts, pending)
    ack = AckSubject(stream.encode(), consumer.encode(), count, seq, consumer_seq, ts, pending)
    assert parse_ack_subject(written) == ack
    assert read_ack(written) == (acks.keys[0], count, seq, consumer_seq)
    named = AckSubjects(stream, consumer, AckScope("hub", "szMpdrwD", is_named=True))
    newer = named.format(count, seq, consumer_seq, ts, pending)
    assert newer.startswith(b"$JS.ACK.hub.szMpdrwD.")
    assert parse_ack_subject(newer) == ack
    assert read_ack(newer) == (named.keys[0], count, seq, consumer_seq)
    assert read_ack(newer.removesuffix(b"._")) == (named.keys[1], count, seq, consumer_seq)
    assert named.format_run([seq], [ts], consumer_seq, pending, 1) == [
        named.format(1, seq, consumer_seq, ts, pending)
    ]


def test_the_newer_form_may_have_more_tokens_and_no_domain() -> None:
    ack = AckSubject(b"S", b"c", 1, 2, 3, 4, 5)
    subject = AckSubjects("S", "c", AckScope("", "szMpdrwD", is_named=True)).format(*ack[2:])
    assert subject == b"$JS.ACK._.szMpdrwD.S.c.1.2.3.4.5._"
    assert parse_ack_subject(subject + b".more.of.it") == ack
    assert read_ack(subject + b".more.of.it") == (b"$JS.ACK.S.c", 1, 2, 3)


@pytest.mark.parametrize(
    "subject",
    [
        b"",
        b"$JS.ACK.S.c.1.2.3.4",
        b"$JS.ACK.S.c.1.2.3.4.5.6",
        b"$JS.FC.S.c.1.2.3.4.5",
        b"$JS.ACK.S.c.x.2.3.4.5",
        b"$JS.ACK.S.c..2.3.4.5",
    ],
)
def test_anything_else_is_no_ack_subject(subject: bytes) -> None:
    assert parse_ack_subject(subject) is None
    assert read_ack(subject) is None


@pytest.mark.parametrize("number", [b"-1", b"9" * 19, b"9" * 30, b"9" * 5000])
def test_an_ack_with_a_number_that_no_consumer_can_have_is_none(number: bytes) -> None:
    for place in range(3):
        numbers = [number if place == other else b"1" for other in range(3)]
        assert read_ack(b"$JS.ACK.S.C." + b".".join(numbers) + b".1.1") is None
