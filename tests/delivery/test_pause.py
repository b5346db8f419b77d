"""A pause ends by the wall clock, whatever that does, and is checked at least once a minute."""

from __future__ import annotations

from headwater.clock import DrivenClock
from headwater.delivery.pause import LONGEST_WAIT_NS, Pause

SECOND = 1_000_000_000


def test_without_a_pause_there_is_nothing_to_wait_for() -> None:
    clock = DrivenClock()
    assert (Pause(None, clock).left_ns, Pause(None, clock).next_check()) == (0, None)
    over = Pause(clock.now_ns(), clock)
    assert (over.left_ns, over.next_check()) == (0, None)


def test_a_pause_lasts_until_its_time() -> None:
    clock = DrivenClock()
    pause = Pause(clock.now_ns() + 5 * SECOND, clock)
    assert (pause.left_ns, pause.next_check()) == (5 * SECOND, clock.steady_ns() + 5 * SECOND)
    clock.advance(5 * SECOND)
    assert (pause.left_ns, pause.next_check()) == (0, None)


def test_a_long_pause_is_checked_again_since_the_clock_may_be_set() -> None:
    clock = DrivenClock()
    pause = Pause(clock.now_ns() + 3600 * SECOND, clock)
    assert pause.next_check() == clock.steady_ns() + LONGEST_WAIT_NS
    clock.step(3600 * SECOND)
    assert pause.left_ns == 0
