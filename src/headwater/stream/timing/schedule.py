"""When a scheduled message is published: once, at an interval, or by cron pattern."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from headwater.model.times import SECOND, format_time, parse_duration, parse_time
from headwater.stream.timing.cron import Cron

_NAMED = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Schedule:
    """One of: a moment, an interval, a cron pattern in a time zone."""

    at_ns: int | None = None
    every_ns: int = 0
    cron: Cron | None = None
    zone: tzinfo = UTC

    @classmethod
    def parse(cls, pattern: str, zone: tzinfo | None) -> Schedule | None:
        """Return what a pattern says, or None if it is invalid; only cron may have a time zone."""
        kind, _, rest = pattern.partition(" ")
        if kind in ("@at", "@every") and rest:
            if zone is not None:
                return None
            if kind == "@at":
                at_ns = parse_time(rest)
                return None if at_ns is None else cls(at_ns=at_ns)
            every_ns = parse_duration(rest)
            return None if every_ns is None or every_ns < SECOND else cls(every_ns=every_ns)
        cron = Cron.parse(_NAMED.get(pattern, pattern))
        return None if cron is None else cls(cron=cron, zone=zone or UTC)

    @property
    def repeats(self) -> bool:
        """Return whether it is published more than once."""
        return self.at_ns is None

    def next_ns(self, after_ns: int, now_ns: int) -> int | None:
        """Return when it is due after a time; what was missed until now counts once. None if it never is."""
        if self.at_ns is not None:
            return self.at_ns
        due = self._following(after_ns if self.cron else _rounded(after_ns))
        if due is not None and due < now_ns:
            due = self._following(_rounded(now_ns))
        return due

    def _following(self, ns: int) -> int | None:
        if self.cron is None:
            return ns + self.every_ns
        try:
            moment = (_EPOCH + timedelta(seconds=ns // SECOND)).astimezone(self.zone)
            following = self.cron.after(moment)
        except OverflowError:
            return None
        return None if following is None else int((following - _EPOCH).total_seconds()) * SECOND

    def format(self, ns: int) -> str:
        """Return a time as RFC 3339 in the schedule's zone."""
        if self.zone is UTC:
            return format_time(ns)
        moment = (_EPOCH + timedelta(seconds=ns // SECOND)).astimezone(self.zone)
        return moment.isoformat().replace("+00:00", "Z")


def _rounded(ns: int) -> int:
    """Return the nearest whole second."""
    return (ns + SECOND // 2) // SECOND * SECOND


@lru_cache(maxsize=1024)
def zone_of(name: str) -> tzinfo | None:
    """Return the time zone of this name in the IANA database, or None."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        return None
