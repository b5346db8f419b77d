"""Times and durations as text, written and read as Go does."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
ZERO_TIME = "0001-01-01T00:00:00Z"
"""How Go prints a time that was never set."""
ZERO_NS = -62_135_596_800 * SECOND
"""The same as nanoseconds since the epoch."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)
_INT64_MAX = 2**63 - 1
_LONGEST_DURATION = 256
"""The most characters of a duration: clients send them, and exact sums of many parts take long."""
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", flags=re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", flags=re.ASCII)
_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": MILLISECOND,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}


# Lists repeat the same times: those of streams that do not change.
@lru_cache(maxsize=8192)
def format_time(ns: int) -> str:
    """Return nanoseconds since the epoch as RFC 3339 in UTC, trailing zeros of the fraction left out."""
    seconds, fraction = divmod(ns, SECOND)
    text = (_NAIVE_EPOCH + timedelta(seconds=seconds)).isoformat()
    if fraction:
        text = f"{text}.{fraction:09d}".rstrip("0")
    return text + "Z"


def parse_time(text: str) -> int | None:
    """Return nanoseconds since the epoch of an RFC 3339 time, or None; digits beyond nanoseconds are cut."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    clock, fraction, zone = found.groups()
    try:
        moment = datetime.fromisoformat(clock + ("+00:00" if zone == "Z" else zone))
    except ValueError:
        return None
    whole = (moment - _EPOCH) // timedelta(seconds=1)
    return whole * SECOND + int(((fraction or "") + "000000000")[:9])


def parse_duration(text: str) -> int | None:
    """Return the nanoseconds of a Go duration such as `1h15m30.5s`, or None."""
    if len(text) > _LONGEST_DURATION:
        return None
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0
    total = Fraction(0)
    position = 0
    while position < len(rest):
        part = _DURATION_PART.match(rest, position)
        if part is None:
            return None
        total += Fraction("0" + part[1].removesuffix(".")) * _UNITS[part[2]]
        position = part.end()
    ns = int(total)
    return sign * ns if position and ns <= _INT64_MAX else None


def format_duration(ns: int) -> str:
    """Return the duration as Go prints it: `2m0s`, `1.5s`, `100ms`."""
    if ns < 0:
        return "-" + format_duration(-ns)
    if ns == 0:
        return "0s"
    for unit, size in (("ns", 1), ("µs", 1_000), ("ms", MILLISECOND)):
        if ns < 1000 * size:
            return _decimal(ns, size) + unit
    minutes, rest = divmod(ns, 60 * SECOND)
    text = _decimal(rest, SECOND) + "s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = (f"{hours}h" if hours else "") + f"{minutes}m" + text
    return text


def _decimal(ns: int, size: int) -> str:
    """Return ns / size without trailing zeros."""
    whole, rest = divmod(ns, size)
    digits = len(str(size)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0") if rest else str(whole)
