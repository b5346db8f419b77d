"""Steps of time for a chart: how wide they are, and which of them have no messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from headwater.errors import SettingsError

MOST = 2_000
"""Steps of one chart; more are no picture."""
NAMES: Mapping[str, int] = {
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": 86_400,
    "week": 7 * 86_400,
}
_STEPS_S = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 3 * 3600, 6 * 3600, 12 * 3600),
    *(86_400, 2 * 86_400, 7 * 86_400, 14 * 86_400, 28 * 86_400, 91 * 86_400, 364 * 86_400),
)


def chosen_step_s(first: datetime, last: datetime, most: int) -> int:
    """Return the smallest usual step with which a time span has at most so many steps."""
    span_s = (last - first).total_seconds()
    fitting = (step for step in _STEPS_S if span_s / step <= most - 1)
    return next(fitting, _STEPS_S[-1])


def check_step(step_s: int, first: datetime, last: datetime) -> None:
    """Refuse a step that is too small for a time span."""
    steps = (last - first).total_seconds() / step_s
    if steps > MOST:
        raise SettingsError(
            f"the messages cover {steps:,.0f} steps, but a chart has at most {MOST:,}: pass a longer --by"
        )


def week_offset_s(step_s: int) -> int:
    """Return when the first step of a clock that starts in 1970 begins: on a Monday, for steps of weeks."""
    # 1970 began on a Thursday.
    return 4 * 86_400 if step_s % (7 * 86_400) == 0 else 0


def start_of(time: datetime, step_s: int) -> datetime:
    """Return the beginning of the step that a time is in; weeks begin on Mondays."""
    offset_s = week_offset_s(step_s)
    seconds = int(time.timestamp()) - offset_s
    return datetime.fromtimestamp(seconds - seconds % step_s + offset_s, UTC)


def filled(
    found: Iterable[tuple[datetime, float]],
    first: datetime,
    last: datetime,
    step_s: int,
    *,
    carried: bool = False,
) -> list[tuple[datetime, float]]:
    """Return a value for each step of a time span: 0, or the value before it, where none was found."""
    values = dict(found)
    result: list[tuple[datetime, float]] = []
    at, end = start_of(first, step_s), start_of(last, step_s)
    while at <= end:
        before = result[-1][1] if carried and result else 0.0
        result.append((at, values.get(at, before)))
        at += timedelta(seconds=step_s)
    return result


def cumulated(points: Iterable[tuple[datetime, float]]) -> list[tuple[datetime, float]]:
    """Return the sums up to each step."""
    total, result = 0.0, []
    for at, value in points:
        total += value
        result.append((at, total))
    return result
