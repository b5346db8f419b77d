"""The last lines of an engine's log, kept in memory for its pages /log and /warnings."""

from __future__ import annotations

import logging
import re
from collections import deque
from dataclasses import asdict, dataclass, replace
from typing import Any

from headwater.record_fields import shown_fields

MOST_KEPT = 1000
MOST_WARNINGS = 200
"""Warnings are kept on their own, so that other lines do not displace them."""
MOST_LETTERS = 1000
"""Longer messages are cut."""
_SECRETS = (
    (re.compile(r"(?<=//)[^\s/@]*@"), "…@"),
    (re.compile(r"\bS[AUONCX][A-Z2-7]{50,}\b"), "…"),  # the seed of an nkey
    (re.compile(r"\beyJ[\w-]+\.[\w-]+(\.[\w-]+)?"), "…"),  # a JWT
    (
        re.compile(
            r"(?i)\b(\w{0,40}?(?:password|secret|token|access_key)\w{0,40}['\"]?\s{0,4}[=:]\s{0,4})\S+"
        ),
        r"\1…",
    ),
)


@dataclass(frozen=True, slots=True)
class RecentLine:
    """One message with its fields, and how often it was logged without another in between."""

    time_s: float
    """When it was logged last, in seconds since the epoch."""
    level: str
    logger: str
    message: str
    times: int = 1

    @property
    def severity(self) -> int:
        """Return the level as a number."""
        return logging.getLevelNamesMapping().get(self.level.upper(), logging.NOTSET)


class RecentLog(logging.Handler):
    """Keeps what is logged at a level or above; the oldest lines are dropped first."""

    def __init__(self, level: int = logging.NOTSET, most: int = MOST_KEPT) -> None:
        super().__init__(level)
        self._kept: deque[RecentLine] = deque(maxlen=most)
        self.dropped = 0
        """How many were logged and are not kept any more."""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record; the caller holds the handler's lock."""
        try:
            new = _line_of(record)
        except Exception:
            self.handleError(record)
            return
        last = self._kept[-1] if self._kept else None
        if last is not None and (last.logger, last.message) == (new.logger, new.message):
            self._kept[-1] = replace(new, times=last.times + 1)
            return
        self.dropped += len(self._kept) == self._kept.maxlen
        self._kept.append(new)

    def listed(self, least: int = logging.NOTSET, most: int = MOST_KEPT) -> list[dict[str, Any]]:
        """Return the last lines of at least a level without secrets, the newest first."""
        self.acquire()
        try:
            kept = list(self._kept)
        finally:
            self.release()
        wanted = [each for each in reversed(kept) if each.severity >= least][:most]
        return [asdict(replace(each, message=without_secrets(each.message))) for each in wanted]


def _line_of(record: logging.LogRecord) -> RecentLine:
    text = record.getMessage() + shown_fields(record)
    if record.exc_info and record.exc_info[1] is not None:
        # The traceback stays in the log: it may show values that nothing here knows to be secret.
        text = f"{text}: {type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
    # What a hostile name makes long must not take long when secrets are looked for.
    return RecentLine(record.created, record.levelname.lower(), record.name, text[: 4 * MOST_LETTERS])


def without_secrets(text: str) -> str:
    """Return a message in one bounded piece without passwords, tokens, seeds and JWTs."""
    text = text[: 4 * MOST_LETTERS]
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"
