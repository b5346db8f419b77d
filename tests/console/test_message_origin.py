"""Tests of console.message_origin."""

from __future__ import annotations

import pytest

from headwater.console.message_origin import MessageOrigin, origin_of


def block(value: str) -> bytes:
    return f"NATS/1.0\r\nNats-Stream-Source: {value}\r\n\r\n".encode()


def test_the_header_names_stream_sequence_and_subject() -> None:
    assert origin_of(block("ORDERS 17 > > orders.eu")) == MessageOrigin("ORDERS", "", 17, "orders.eu")
    remote = origin_of(block("ORDERS:x7Yz 17 > > orders.eu Ab3"))
    assert remote == MessageOrigin("ORDERS", "x7Yz", 17, "orders.eu")
    assert origin_of(block("ORDERS 17")) == MessageOrigin("ORDERS", "", 17, "")


@pytest.mark.parametrize("value", ["", "ORDERS", "ORDERS x", "ORDERS -1", "A " + "9" * 50, "ORDERS ²"])
def test_a_malformed_header_names_no_origin(value: str) -> None:
    assert origin_of(block(value)) is None


def test_a_message_without_the_header_has_no_origin() -> None:
    assert origin_of(b"") is None
    assert origin_of(b"NATS/1.0\r\na: b\r\n\r\n") is None
