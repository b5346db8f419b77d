"""Each is called at the time it asked for, however many share the one timer."""

from __future__ import annotations

from headwater.clock import DrivenClock
from headwater.delivery.timers import Timers
from waits import until


class Ticked:
    """Keeps when it was called, and asks for the times that a test gives."""

    def __init__(self, *wanted: int) -> None:
        self.ticks: list[int] = []
        self.wanted = list(wanted)

    def tick(self, now_ns: int) -> int | None:
        self.ticks.append(now_ns)
        return self.wanted.pop(0) if self.wanted else None


async def fired(timers: Timers, clock: DrivenClock) -> None:
    """Return once everything that is due by now was called."""
    last = Ticked()
    timers.at(clock.now_ns(), last)
    await until(lambda: bool(last.ticks))


async def test_it_is_called_when_its_time_has_come_and_not_before() -> None:
    clock = DrivenClock(0)
    timers, early, late = Timers(clock), Ticked(), Ticked()
    timers.at(100, early)
    timers.at(200, late)
    await fired(timers, clock)
    assert (early.ticks, late.ticks) == ([], [])
    clock.advance(150)
    await fired(timers, clock)
    assert (early.ticks, late.ticks) == ([150], [])
    clock.advance(50)
    await fired(timers, clock)
    assert (early.ticks, late.ticks) == ([150], [200])
    timers.close()


async def test_the_earliest_wish_of_the_same_one_holds() -> None:
    clock = DrivenClock(0)
    timers, one = Timers(clock), Ticked()
    for due in (300, 100, 200, None):
        timers.at(due, one)
    clock.advance(1000)
    await fired(timers, clock)
    assert one.ticks == [1000]
    timers.close()


async def test_what_it_returns_is_when_it_is_called_next() -> None:
    clock = DrivenClock(0)
    timers, one = Timers(clock), Ticked(50)
    timers.at(10, one)
    clock.advance(20)
    await fired(timers, clock)
    clock.advance(20)
    await fired(timers, clock)
    assert one.ticks == [20]
    clock.advance(20)
    await fired(timers, clock)
    assert one.ticks == [20, 60]
    timers.close()


async def test_a_removed_timer_is_not_called() -> None:
    clock = DrivenClock(0)
    timers, one = Timers(clock), Ticked()
    timers.at(10, one)
    timers.forget(one)
    clock.advance(20)
    await fired(timers, clock)
    assert one.ticks == []
    timers.at(30, one)
    clock.advance(20)
    await fired(timers, clock)
    assert one.ticks == [40]
    timers.close()


async def test_no_timer_is_called_after_the_close() -> None:
    clock = DrivenClock(0)
    timers, one, other = Timers(clock), Ticked(), Timers(clock)
    timers.at(10, one)
    timers.close()
    clock.advance(20)
    await fired(other, clock)
    assert one.ticks == []
    other.close()


async def test_one_that_fails_does_not_keep_the_others_waiting() -> None:
    class Failing:
        def tick(self, now_ns: int) -> int | None:
            raise RuntimeError("a bug")

    clock = DrivenClock(0)
    timers, one = Timers(clock), Ticked()
    timers.at(10, Failing())
    timers.at(10, one)
    clock.advance(20)
    await fired(timers, clock)
    assert one.ticks == [20]
    timers.close()
