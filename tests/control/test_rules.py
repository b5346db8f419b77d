"""The rules where a plain nats-server cannot be asked: limits, consumers, and values that stay the same."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from headwater.control.account import AccountLimits
from headwater.control.rules import ConsumerBounds, check_create, check_update, normalise
from headwater.errors import ApiError
from headwater.model.stream import ConsumerLimits, Discard, StreamConfig
from headwater.model.times import SECOND
from headwater.model.upstream import StreamSource

PLAIN = StreamConfig(name="S", subjects=("s",))


def test_defaults_are_filled_in() -> None:
    config = normalise(StreamConfig(name="S", max_msgs=0, max_bytes=-7, num_replicas=0))
    assert (config.max_msgs, config.max_bytes, config.num_replicas) == (-1, -1, 1)
    assert config.duplicate_window == 120 * SECOND


@pytest.mark.parametrize(
    ("max_age", "server", "window"), [(0, 60, 60), (30, 60, 30), (90, 0, 90), (500, 0, 120)]
)
def test_the_default_window_is_the_smallest_bound(max_age: int, server: int, window: int) -> None:
    config = normalise(StreamConfig(name="S", max_age=max_age * SECOND), server * SECOND)
    assert config.duplicate_window == window * SECOND


def test_a_stream_with_an_upstream_has_no_window_unless_asked() -> None:
    assert normalise(StreamConfig(name="S", mirror=StreamSource("O"))).duplicate_window == 0
    assert normalise(StreamConfig(name="S", sources=(StreamSource("O"),))).duplicate_window == 0


def test_a_checked_config_stays_as_it_is_when_checked_again() -> None:
    once = check_create(PLAIN, {})
    assert normalise(once) == once
    assert check_create(once, {"S": once}) == once
    assert check_update(once, {"S": once}) == once


def test_a_window_beyond_the_servers_limit_is_refused() -> None:
    with pytest.raises(ApiError, match="larger then server limit of 1m0s"):
        check_create(replace(PLAIN, duplicate_window=61 * SECOND), {}, max_duplicate_window=60 * SECOND)


def test_a_pedantic_request_must_know_the_servers_limit() -> None:
    with pytest.raises(ApiError, match="duplicate window limits are higher than current limits"):
        check_create(PLAIN, {}, max_duplicate_window=60 * SECOND, pedantic=True)


def test_the_account_counts_other_streams_only() -> None:
    limits = AccountLimits(max_streams=1)
    stored = check_create(PLAIN, {}, limits=limits)
    assert check_create(PLAIN, {"S": stored}, limits=limits) == stored
    with pytest.raises(ApiError) as caught:
        check_create(StreamConfig(name="T"), {"S": stored}, limits=limits)
    assert caught.value.err_code == 10027


def test_the_account_may_want_max_bytes() -> None:
    with pytest.raises(ApiError) as caught:
        check_create(PLAIN, {}, limits=AccountLimits(max_bytes_required=True))
    assert caught.value.err_code == 10113
    with pytest.raises(ApiError) as caught:
        check_create(replace(PLAIN, max_bytes=11), {}, limits=AccountLimits(storage_max_stream_bytes=10))
    assert caught.value.err_code == 10122


def test_an_update_reserves_its_own_bytes_once() -> None:
    limits = AccountLimits(max_storage=100)
    stored = check_create(replace(PLAIN, max_bytes=80), {}, limits=limits)
    assert check_update(replace(PLAIN, max_bytes=100), {"S": stored}, limits=limits).max_bytes == 100
    with pytest.raises(ApiError) as caught:
        check_update(replace(PLAIN, max_bytes=101), {"S": stored}, limits=limits)
    assert caught.value.err_code == 10047


def test_consumer_limits_do_not_undercut_a_consumer() -> None:
    stored = check_create(PLAIN, {})
    consumers = [ConsumerBounds("a", 0, 10), ConsumerBounds("b", 0, 5), ConsumerBounds("c", SECOND, 7)]
    tighter = replace(PLAIN, consumer_limits=ConsumerLimits(max_ack_pending=6))
    with pytest.raises(ApiError) as caught:
        check_update(tighter, {"S": stored}, consumers=consumers)
    assert (caught.value.err_code, caught.value.description) == (
        10069,
        "change to limits violates consumers: a, c",
    )
    looser = replace(PLAIN, consumer_limits=ConsumerLimits(SECOND, 10))
    assert check_update(looser, {"S": stored}, consumers=consumers).consumer_limits == ConsumerLimits(
        SECOND, 10
    )


def test_unchanged_consumer_limits_are_not_held_against_a_consumer() -> None:
    stored = check_create(replace(PLAIN, consumer_limits=ConsumerLimits(max_ack_pending=5)), {})
    same = replace(stored, max_msgs=5)
    assert check_update(same, {"S": stored}, consumers=[ConsumerBounds("a", 0, 10)]).max_msgs == 5


def test_a_sealed_stream_keeps_everything_for_ever() -> None:
    stored = check_create(replace(PLAIN, max_age=600 * SECOND, allow_rollup_hdrs=True), {})
    sealed = check_update(replace(stored, sealed=True), {"S": stored})
    assert (sealed.max_age, sealed.discard, sealed.allow_rollup_hdrs) == (0, Discard.NEW, False)
    assert sealed.deny_delete
    assert sealed.deny_purge
