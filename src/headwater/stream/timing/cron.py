"""Six-field cron patterns: second, minute, hour, day of month, month, day of week."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import NamedTuple

YEARS_AHEAD = 5
"""A pattern that matches no time in this many years is invalid."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class _Field(NamedTuple):
    """The values that a field may have, and names for them."""

    low: int
    high: int
    names: dict[str, int]


_FIELDS = (
    _Field(0, 59, {}),
    _Field(0, 59, {}),
    _Field(0, 23, {}),
    _Field(1, 31, {}),
    _Field(1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    _Field(0, 6, {name: number for number, name in enumerate(_DAYS)}),
)


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed pattern: the values that each field takes, ascending."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    """Whether the day of month or of week is a star: then both must match, otherwise one is enough."""

    @classmethod
    def parse(cls, pattern: str) -> Cron | None:
        """Return the pattern's values, or None if it is invalid."""
        words = pattern.split()
        if len(words) != len(_FIELDS):
            return None
        fields = [_parse_field(word, field) for word, field in zip(words, _FIELDS, strict=True)]
        if None in fields:
            return None
        taken = [field for field in fields if field is not None]
        seconds, minutes, hours, days, months, weekdays = (values for values, _ in taken)
        return cls(
            tuple(sorted(seconds)),
            tuple(sorted(minutes)),
            tuple(sorted(hours)),
            days,
            months,
            weekdays,
            any_day=taken[3][1] or taken[5][1],
        )

    def after(self, moment: datetime) -> datetime | None:
        """Return the first moment later than this one whose wall clock, in its own zone, fits the pattern.

        A wall-clock time that the zone skips never fits; one that it passes twice fits twice.
        """
        zone = moment.tzinfo
        assert zone is not None
        today = moment.date()
        last_year = today.year + YEARS_AHEAD
        while today.year <= last_year:
            if today.month not in self.months:
                today = (today.replace(day=1) + timedelta(days=32)).replace(day=1)
                continue
            if self._fits_day(today):
                found = self._within(today, zone, moment.astimezone(UTC))
                if found is not None:
                    return found.astimezone(zone)
            today += timedelta(days=1)
        return None

    def _fits_day(self, day: date) -> bool:
        of_month = day.day in self.days
        of_week = day.isoweekday() % 7 in self.weekdays
        return of_month and of_week if self.any_day else of_month or of_week

    def _within(self, day: date, zone: tzinfo, after: datetime) -> datetime | None:
        """Return the first moment of a day that fits and is later, in UTC."""
        firsts = (next(self._moments(day, zone, after, fold), None) for fold in (0, 1))
        return min((moment for moment in firsts if moment is not None), default=None)

    def _moments(self, day: date, zone: tzinfo, after: datetime, fold: int) -> Iterator[datetime]:
        """Yield the moments of a day that fit and are later, passing over hours and minutes that are over."""

        def at(hour: int, minute: int, second: int) -> datetime:
            clock = datetime(day.year, day.month, day.day, hour, minute, second, tzinfo=zone, fold=fold)
            return clock.astimezone(UTC)

        for hour in self.hours:
            if at(hour, 59, 59) <= after:
                continue
            for minute in self.minutes:
                if at(hour, minute, 59) <= after:
                    continue
                for second in self.seconds:
                    moment = at(hour, minute, second)
                    clock = moment.astimezone(zone)
                    exists = (clock.hour, clock.minute, clock.second) == (hour, minute, second)
                    if moment > after and exists:
                        yield moment


def _parse_field(word: str, field: _Field) -> tuple[frozenset[int], bool] | None:
    """Return the values of a comma-separated field and whether a star is among its parts."""
    values: set[int] = set()
    star = False
    for part in filter(None, word.split(",")):
        parsed = _parse_part(part, field)
        if parsed is None:
            return None
        values |= parsed[0]
        star = star or parsed[1]
    return frozenset(values), star


def _parse_part(part: str, field: _Field) -> tuple[set[int], bool] | None:
    """Return the values of `*`, `5`, `1-5`, any of them with `/step`, and whether it is a star."""
    span, *steps = part.split("/")
    ends = span.split("-")
    star = ends[0] in ("*", "?")
    step = _number(steps[0], {}) if steps else 1
    if len(steps) > 1 or not step:
        return None
    if star:
        return set(range(field.low, field.high + 1, step)), step == 1
    numbers = [_number(end, field.names) for end in ends]
    if None in numbers or len(numbers) > 2:
        return None
    low = numbers[0] or 0
    high = (numbers[-1] or 0) if len(numbers) == 2 or not steps else field.high
    if not field.low <= low <= high <= field.high:
        return None
    return set(range(low, high + 1, step)), False


def _number(text: str, names: dict[str, int]) -> int | None:
    """Return a number, plain or by name."""
    named = names.get(text.lower())
    if named is not None:
        return named
    digits = text.removeprefix("+")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None
