"""Tests of wire.stan_messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.wire import stan_messages as stan
from headwater.wire.frames import FrameParser
from headwater.wire.stan_messages import MalformedError
from sinks import KeptSink


def test_fields_have_the_numbers_that_clients_know() -> None:
    body = stan.PubMsg(clientID="me", guid="g", subject="foo", data=b"x", connID=b"c").SerializeToString()
    assert body == b"\n\x02me\x12\x01g\x1a\x03foo*\x01x2\x01c"
    assert stan.SubscriptionResponse(ackInbox="a").SerializeToString() == b"\x12\x01a"
    assert stan.ConnectResponse(publicKey="k").SerializeToString() == b"\xa2\x06\x01k"


def test_success_without_fields_is_an_empty_body() -> None:
    assert stan.CloseResponse().SerializeToString() == b""


def test_a_negative_number_comes_back_as_it_was() -> None:
    body = stan.SubscriptionRequest(startTimeDelta=-1, maxInFlight=-5).SerializeToString()
    request = stan.decode(stan.SubscriptionRequest, body)
    assert (request.startTimeDelta, request.maxInFlight) == (-1, -5)


def test_bytes_that_are_no_message_are_refused() -> None:
    with pytest.raises(MalformedError):
        stan.decode(stan.PubMsg, b"\n\xff")


def test_text_that_is_no_utf8_is_refused() -> None:
    with pytest.raises(MalformedError):
        stan.decode(stan.PubMsg, b"\n\x01\xff")


@given(st.lists(st.tuples(st.integers(1, 2**63), st.integers(0, 2**62), st.binary()), min_size=1))
def test_what_is_delivered_reads_back(messages: list[tuple[int, int, bytes]]) -> None:
    seqs, times, datas = zip(*messages, strict=True)
    frames = stan.deliveries(b"inbox", "foo", seqs, times, ["r"] * len(seqs), datas)
    got = [stan.decode(stan.MsgProto, data) for _, _, _, data in _parsed(frames)]
    assert [(m.sequence, m.timestamp, m.data) for m in got] == messages
    assert {(m.subject, m.reply, m.redelivered, m.redeliveryCount) for m in got} == {("foo", "r", False, 0)}


def test_a_redelivery_says_so_and_how_often() -> None:
    ((_, _, _, data),) = _parsed(stan.redelivery(b"inbox", "foo", 7, 8, "", b"x", 3))
    message = stan.decode(stan.MsgProto, data)
    assert (message.sequence, message.redelivered, message.redeliveryCount) == (7, True, 3)


def _parsed(frames: bytes) -> list[tuple[bytes, bytes, bytes, bytes]]:
    """Return frames that we publish as a subscriber gets them."""
    sink = KeptSink()
    FrameParser().feed(frames.replace(b"PUB inbox ", b"MSG inbox 1 "), {b"1": sink})
    return sink.items
