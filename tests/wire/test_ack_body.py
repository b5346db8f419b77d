"""The bodies of acknowledgements say what they always said."""

from __future__ import annotations

import pytest

from headwater.wire.ack_body import ACK, AckBody, AckKind, parse_ack_body

S = 1_000_000_000


@pytest.mark.parametrize("body", [b"", b"+ACK", b"+OK"])
def test_done_is_said_in_three_ways(body: bytes) -> None:
    assert parse_ack_body(body) is ACK


@pytest.mark.parametrize(
    ("body", "delay"),
    [
        (b"-NAK", None),
        (b"-NAK ", None),
        (b'-NAK {"delay": 5000000000}', 5 * S),
        (b'-NAK {"Delay":5}', 5),
        (b'-NAK {"delay":-5}', -5),
        (b"-NAK {}", 0),
        (b'-NAK {"delay":null}', 0),
        (b"-NAK 10s", 10 * S),
        (b"-NAK  1m30s ", 90 * S),
        (b"-NAK10s", 10 * S),
        (b'-NAK {"delay":1.5}', None),
        (b'-NAK {"delay":"10s"}', None),
        (b'-NAK {"delay":true}', None),
        (b'-NAK {"delay":99999999999999999999}', None),
        (b"-NAK {x", None),
        (b"-NAK soon", None),
        (b"-NAK \xff", None),
    ],
)
def test_not_done_may_say_when_to_try_again(body: bytes, delay: int | None) -> None:
    assert parse_ack_body(body) == AckBody(AckKind.NAK, delay_ns=delay)


def test_still_at_it() -> None:
    assert parse_ack_body(b"+WPI").kind is AckKind.PROGRESS
    assert parse_ack_body(b"+WPI ").kind is AckKind.UNKNOWN


@pytest.mark.parametrize(
    ("body", "reason"),
    [(b"+TERM", ""), (b"+TERM  no such order ", "no such order"), (b"+TERM \xff", "\ufffd")],
)
def test_never_again_may_say_why(body: bytes, reason: str) -> None:
    assert parse_ack_body(body) == AckBody(AckKind.TERM, reason=reason)


@pytest.mark.parametrize(
    ("body", "request_"), [(b"+NXT", b""), (b"+NXT 5", b" 5"), (b'+NXT {"batch":2}', b' {"batch":2}')]
)
def test_done_and_the_next_one_please(body: bytes, request_: bytes) -> None:
    assert parse_ack_body(body) == AckBody(AckKind.NEXT, request=request_)


@pytest.mark.parametrize("body", [b"ACK", b"+ACK ", b"hello"])
def test_anything_else_says_nothing(body: bytes) -> None:
    assert parse_ack_body(body).kind is AckKind.UNKNOWN
