"""The progress of long operations, shown with a simulated clock."""

from __future__ import annotations

import io

from headwater.cli.phrases import size
from headwater.cli.progress import LINE_SECONDS, Meter, progress_text


class Terminal(io.StringIO):
    """A terminal that keeps what it was shown."""

    def isatty(self) -> bool:
        """Return that it is one."""
        return True


class Clock:
    """Seconds that pass on request."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def test_share_amount_rate_and_time_left_are_said() -> None:
    mib = 1 << 20
    assert progress_text(12 * mib, 27 * mib, 4.0, size) == "44%, 12 MiB of 27 MiB, 3.0 MiB/s, 5.00s left"


def test_without_a_total_nothing_is_left() -> None:
    assert progress_text(1000, 0, 2.0) == "1,000, 500/s"


def test_at_the_end_and_at_the_start_no_time_is_left_to_say() -> None:
    assert progress_text(10, 10, 1.0) == "100%, 10 of 10, 10/s"
    assert progress_text(0, 10, 0.0) == "0%, 0 of 10, 0/s"


def test_without_a_terminal_lines_come_now_and_then_and_at_the_end() -> None:
    out, clock = io.StringIO(), Clock()
    with Meter("Restoring ORDERS", 100, file=out, clock=clock) as meter:
        meter.advance(10)
        assert out.getvalue() == ""
        clock.now += LINE_SECONDS
        meter.advance(10)
        meter.advance(10)
        clock.now += LINE_SECONDS
        meter.reach(100)
    assert out.getvalue().splitlines() == [
        "Restoring ORDERS: 20%, 20 of 100, 10/s, 8.00s left",
        "Restoring ORDERS: 100%, 100 of 100, 25/s",
    ]


def test_an_estimate_that_was_wrong_ends_at_all_there_was() -> None:
    out = io.StringIO()
    with Meter("X", 100, file=out, clock=Clock()) as meter:
        meter.reach(30)
        meter.finish()
    with Meter("Y", 100, file=out, clock=Clock()) as meter:
        meter.reach(300)
    assert out.getvalue() == "X: 100%, 30 of 30, 0/s\nY: 100%, 300 of 300, 0/s\n"


def test_a_terminal_gets_a_bar() -> None:
    out = Terminal()
    with Meter("Purging X", 10, file=out) as meter:
        meter.reach(5)
    assert "Purging X" in out.getvalue()
    assert "━" in out.getvalue()


def test_work_that_fails_is_not_said_to_be_finished() -> None:
    out = io.StringIO()
    meter = Meter("Backing up X", 10, file=out)
    meter.__enter__()
    meter.advance(5)
    meter.__exit__(OSError, OSError("full"), None)
    assert out.getvalue() == ""


def test_nothing_is_shown_if_it_is_turned_off() -> None:
    out, clock = io.StringIO(), Clock()
    with Meter("X", 10, shown=False, file=out, clock=clock) as meter:
        clock.now += 60
        meter.reach(10)
    assert out.getvalue() == ""
