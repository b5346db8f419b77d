"""Tests of wire.stan_messages."""

from __future__ import annotations

import pytest

from headwater.wire import stan_messages as stan
from headwater.wire.stan_messages import MalformedError


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
