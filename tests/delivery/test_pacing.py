"""Messages are delivered immediately, at their original intervals, or at a rate."""

from __future__ import annotations

from headwater.delivery.pacing import Pacing
from headwater.model.consumer import ConsumerConfig, ReplayPolicy

S = 1_000_000_000
ORIGINAL = ConsumerConfig(replay_policy=ReplayPolicy.ORIGINAL)


def test_nothing_waits_unless_it_is_asked_for() -> None:
    pacing = Pacing(ConsumerConfig())
    assert not pacing.one_by_one
    assert pacing.wait_ns(5 * S, 100 * S) == 0


def test_a_replay_keeps_the_gaps_between_messages() -> None:
    pacing = Pacing(ORIGINAL)
    assert pacing.one_by_one
    assert pacing.wait_ns(1 * S, 100 * S) == 0
    pacing.sent(1 * S, 10, 100 * S)
    assert pacing.wait_ns(4 * S, 101 * S) == 2 * S
    assert pacing.wait_ns(4 * S, 104 * S) == 0
    pacing.sent(4 * S, 10, 104 * S)
    assert pacing.wait_ns(3 * S, 104 * S) == 0, "clocks may go back"


def test_messages_that_come_in_later_are_not_held_back() -> None:
    pacing = Pacing(ORIGINAL)
    pacing.wait_ns(1 * S, 100 * S)
    pacing.sent(1 * S, 10, 100 * S)
    assert pacing.wait_ns(101 * S, 101 * S) == 0


def test_a_rate_spreads_bytes_over_time() -> None:
    pacing = Pacing(ConsumerConfig(rate_limit_bps=8000))
    assert pacing.one_by_one
    assert pacing.wait_ns(0, 0) == 0
    pacing.sent(0, 500, 0)
    assert pacing.wait_ns(0, 0) == S // 2
    pacing.sent(0, 500, S // 2)
    assert pacing.wait_ns(0, S // 2) == S // 2
    assert pacing.wait_ns(0, 10 * S) == 0
