"""Times to live: every form of the header, and the markers that tell of an end."""

from __future__ import annotations

import pytest

from headwater.errors import ApiError
from headwater.model import headers as header_block
from headwater.model.times import SECOND
from headwater.stream.timing.time_to_live import (
    LONGEST_TTL_NS,
    NEVER,
    at_least,
    is_marker,
    marker,
    parse_ttl,
    stored_ttl,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"", 0),
        (b"never", NEVER),
        (b"Never", NEVER),
        (b"1", SECOND),
        (b"60", 60 * SECOND),
        (b"00", 0),
        (b"1s", SECOND),
        (b"1.9s", SECOND),
        (b"1m30s", 90 * SECOND),
        (b"9999999999999999999", LONGEST_TTL_NS),
    ],
)
def test_a_time_to_live_is_whole_seconds_or_never(value: bytes, expected: int) -> None:
    assert parse_ttl(value) == expected


@pytest.mark.parametrize("value", [b"0", b"0s", b"999ms", b"-1", b"-1s", b"x", b"1 s", b"\xff", b"1e3"])
def test_what_is_too_short_or_no_time_is_refused(value: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        parse_ttl(value)
    assert caught.value.err_code == 10165


def test_a_stored_message_whose_time_to_live_cannot_be_read_has_none() -> None:
    assert stored_ttl(header_block.build([(b"Nats-TTL", b"x")])) is None
    assert stored_ttl(header_block.build([(b"Other", b"1s")])) is None
    assert stored_ttl(header_block.build([(b"Nats-TTL", b"2s")])) == 2 * SECOND


def test_a_time_to_live_is_raised_and_written_in_seconds() -> None:
    block = header_block.build([(b"Nats-TTL", b"1s"), (b"Own", b"x")])
    raised, ttl_ns = at_least(block, SECOND, 60 * SECOND + 5)
    assert ttl_ns == 60 * SECOND
    assert header_block.parse(raised) == [(b"Own", b"x"), (b"Nats-TTL", b"60")]


@pytest.mark.parametrize("ttl_ns", [NEVER, 0, 60 * SECOND, 61 * SECOND])
def test_a_time_to_live_that_is_long_enough_stays(ttl_ns: int) -> None:
    assert at_least(b"block", ttl_ns, 60 * SECOND) == (b"block", ttl_ns)


def test_a_marker_says_why_and_how_long_it_stays() -> None:
    assert header_block.parse(marker(90 * SECOND + 1)) == [
        (b"Nats-Marker-Reason", b"MaxAge"),
        (b"Nats-TTL", b"1m30s"),
        (b"Nats-Rollup", b"sub"),
    ]


def test_markers_and_purged_keys_need_no_marker_of_their_own() -> None:
    assert is_marker(marker(SECOND))
    assert is_marker(header_block.build([(b"KV-Operation", b"PURGE")]))
    assert not is_marker(header_block.build([(b"KV-Operation", b"DEL")]))
    assert not is_marker(b"")
