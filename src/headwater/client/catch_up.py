"""A wait until a stream has everything that its origins held when the wait began.

The wait succeeds only if each origin was seen after the wait began, no upstream reports an error, and
everything that the origin held then is copied.

A plain nats-server reports a lag, but no sequence. It counts the answer to its first request as contact, and
then reports a lag of zero until the first message has arrived. So its zero counts only after contact over a
longer time. An origin sends a heartbeat after a second without messages. So by then either a message has
arrived, and the lag with it, or there was none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from headwater.backoff import Backoff
from headwater.client.stream_info import UpstreamInfo
from headwater.errors import Error
from headwater.model.counted import counted
from headwater.model.progress import Phase
from headwater.model.times import SECOND, format_duration

GONE_S = 12.0
"""An origin that does not exist for this long, longer than an engine's retries, is not waited for."""
STALLED_S = 120.0
"""A copy that the engine reports as stalled for this long is not waited for."""
HEARD_S = 0.9
"""How long contact must last before a plain server's lag of zero counts; heartbeats are sent every second."""
SILENT_S = 4.0
"""A longer break between two contacts is no heartbeat but a new request, up to ten seconds after the last."""
_STREAM_NOT_FOUND = 10059
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 0.5


def ask_waits() -> Backoff:
    """Return the pauses between the requests of one wait."""
    return Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)


class CatchUpError(Error):
    """A stream has not caught up: in time, or at all."""

    def __init__(self, stream: str, reasons: Sequence[str], waited_s: float) -> None:
        self.stream = stream
        self.reasons = tuple(reasons)
        """What was still waited for, one sentence for each upstream that is behind."""
        self.waited_s = waited_s
        after = format_duration(int(waited_s * 10) * SECOND // 10)
        super().__init__(f"stream {stream} has not caught up after {after}: {'; '.join(reasons)}")


class _Contact:
    """The first and the last contact with an origin without a long break."""

    def __init__(self) -> None:
        self._since_s = self._last_s = -math.inf

    def lasts(self, silent_s: float, asked_s: float, answered_s: float) -> bool:
        """Record a contact `silent_s` before an answer; return whether contact has lasted long enough.

        The server measured the silence between the request and the answer, so the time is not exact. Take
        the latest for the first contact and the earliest for the last one.
        """
        if asked_s - silent_s - self._last_s > SILENT_S:
            self._since_s = answered_s - silent_s
        self._last_s = asked_s - silent_s
        return self._last_s - self._since_s >= HEARD_S


class CatchUp:
    """What a stream lacks of its origins as they were when the wait began; each call passes the time."""

    def __init__(self, now_s: float, stalled_s: float = math.inf) -> None:
        self._began_s = now_s
        self._stalled_s = stalled_s
        self._goals: dict[int, int] = {}
        """By index, the last sequence that each origin had when it was first seen in this wait."""
        self._contacts: dict[int, _Contact] = {}
        """By index, the contacts with each origin since the wait began."""
        self._gone_since_s: float | None = None
        """Since when there is no contact; None while there is."""
        self._stalled_since_s: float | None = None
        """Since when nothing is copied; None while something is."""

    def reasons(self, upstreams: Sequence[UpstreamInfo], asked_s: float, answered_s: float) -> list[str]:
        """Return what is still missing, by infos that were requested and answered then; empty when done."""
        found = [self._reason(index, each, asked_s, answered_s) for index, each in enumerate(upstreams)]
        return [reason for reason in found if reason]

    def is_hopeless(self, upstreams: Sequence[UpstreamInfo], now_s: float) -> bool:
        """Return whether an origin has not existed, or a copy has stalled, for too long."""
        is_gone = any(upstream.error_code == _STREAM_NOT_FOUND for upstream in upstreams)
        is_stalled = any(upstream.phase == Phase.STALLED for upstream in upstreams)
        self._gone_since_s = _since(self._gone_since_s, is_gone, now_s)
        self._stalled_since_s = _since(self._stalled_since_s, is_stalled, now_s)
        return (self._gone_since_s is not None and now_s - self._gone_since_s >= GONE_S) or (
            self._stalled_since_s is not None and now_s - self._stalled_since_s >= self._stalled_s
        )

    def _reason(self, index: int, upstream: UpstreamInfo, asked_s: float, answered_s: float) -> str:
        name = upstream.name
        if upstream.error is not None:
            return f"{name}: {upstream.error}"
        if upstream.silent_s is None:
            return f"{name}: its origin was not seen yet"
        if upstream.silent_s > asked_s - self._began_s:
            return f"{name}: its origin was last seen before this wait began"
        if upstream.seq is not None:
            goal = self._goals.setdefault(index, upstream.origin_last_seq or 0)
            if upstream.seq >= goal:
                return ""
        contact = self._contacts.setdefault(index, _Contact())
        lasts = contact.lasts(upstream.silent_s, asked_s, answered_s)
        if behind := upstream.last_known_lag:
            reason = f"{name}: {counted(behind, 'message')} behind"
            return f"{reason}, {upstream.waiting}" if upstream.waiting else reason
        return "" if lasts else f"{name}: its origin was first seen less than a second ago"


def _since(since_s: float | None, holds: bool, now_s: float) -> float | None:
    """Return since when something holds without a break."""
    if not holds:
        return None
    return now_s if since_s is None else since_s
