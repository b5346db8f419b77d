"""Numbers, sizes, durations and times in human-readable form, formatted and parsed."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

from headwater.model.times import SECOND, ZERO_TIME, parse_duration, parse_time

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
YEAR = 365 * DAY
_LONG_UNITS = {"d": DAY, "w": 7 * DAY, "M": 30 * DAY, "y": YEAR}
_LONG_PART = re.compile(r"(\d+)([dwMy])", flags=re.ASCII)
_SIZE = re.compile(r"(-?\d+(?:\.\d+)?)\s*([KMGTPE]?)(i?)B?", flags=re.ASCII | re.IGNORECASE)
_SIZE_UNITS = " KMGTPE"


def number(value: int) -> str:
    """Return a number with thousands separators."""
    return f"{value:,}"


def size(value: int) -> str:
    """Return a count of bytes such as `837 B`, `3.3 KiB` or `27 KiB`."""
    amount, unit = float(value), 0
    while amount >= 1024 and unit < len(_SIZE_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    if unit == 0:
        return f"{value} B"
    return f"{amount:.1f} {_SIZE_UNITS[unit]}iB" if amount < 9.95 else f"{amount:.0f} {_SIZE_UNITS[unit]}iB"


def duration(ns: int) -> str:
    """Return a duration such as `0.94s`, `1h2m3s` or `2d3h4m5s`."""
    if ns < 0:
        return "-" + duration(-ns)
    if ns == 0:
        return "0s"
    if ns < MINUTE:
        return f"{ns / SECOND:.2f}s"
    text = ""
    for letter, unit in (("y", YEAR), ("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND)):
        count, ns = divmod(ns, unit)
        if count or text:
            text += f"{count}{letter}"
    return text


def setting(ns: int) -> str:
    """Return a configured duration such as `2m0s` or `100ms`, `unlimited` for none."""
    if ns <= 0:
        return "unlimited"
    if ns < SECOND:
        return f"{ns / 1_000_000:g}ms"
    return f"{ns / SECOND:g}s" if ns < MINUTE else duration(ns)


def limit(value: int, say: Callable[[int], str] = number) -> str:
    """Return a limit, or `unlimited`."""
    return "unlimited" if value <= 0 else say(value)


def seen(active_ns: int) -> str:
    """Return the time since an origin was last seen; the server's -1 and 0 mean never."""
    return duration(active_ns) if active_ns > 0 else "never"


def moment(text: str) -> str:
    """Return a time of the API as local `YYYY-MM-DD HH:MM:SS`."""
    ns = parse_time(text) if text and text != ZERO_TIME else None
    return "" if ns is None else _local(ns).strftime("%Y-%m-%d %H:%M:%S")


def since(text: str, now: int) -> str:
    """Return the time from a timestamp of the API until `now`, `never` for one that is not set."""
    ns = parse_time(text) if text and text != ZERO_TIME else None
    return "never" if ns is None else duration(max(now - ns, 0))


def read_duration(text: str) -> int:
    """Return the nanoseconds of `1y2d`, `90m` or `500ms`; -1 and 0 mean none."""
    if text.strip() in ("", "-1", "0"):
        return 0
    total, rest = 0, text.strip()
    while found := _LONG_PART.match(rest):
        total += int(found[1]) * _LONG_UNITS[found[2]]
        rest = rest[found.end() :]
    short = parse_duration(rest) if rest else 0
    if short is None or short < 0 or (not total and not rest):
        raise ValueError(f"{text!r} is not a duration such as 30s, 1h30m, 7d or 1y")
    return total + short


def read_size(text: str) -> int:
    """Return the bytes of `1024`, `64KB`, `1.5GiB`; -1 means no limit."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a size such as 1024, 64KB or 1GiB")
    value = int(float(found[1]) * 1024 ** _SIZE_UNITS.index((found[2] or " ").upper()))
    return value if value > 0 else -1


def read_moment(text: str) -> str:
    """Return the API's form of a UTC time given as `YYYY-MM-DD HH:MM:SS` or RFC 3339."""
    if parse_time(text) is not None:
        return text
    for form in ("%Y-%m-%d %H:%M:%S", "%Y:%m:%d %H:%M:%S", "%Y-%m-%d"):
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        except ValueError:
            continue
    raise ValueError(f"{text!r} is not a UTC time such as 2026-01-31 12:00:00")


class Phrase(click.ParamType[Any]):
    """The type of a flag whose text one of the functions above parses."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read
        """Parses the text of the flag; raises a ValueError whose message is shown."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value, or fail with the parser's message."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION = Phrase("duration", read_duration)
SIZE = Phrase("size", read_size)
MOMENT = Phrase("time", read_moment)


def _local(ns: int) -> datetime:
    return datetime.fromtimestamp(ns // SECOND, UTC).astimezone()
