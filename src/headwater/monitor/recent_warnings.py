"""The last warnings and errors of an engine, kept in memory for its /warnings page."""

from __future__ import annotations

import logging
import re
from collections import deque
from dataclasses import asdict, dataclass, replace
from typing import Any

MOST_KEPT = 200
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
class RecentWarning:
    """One message, and how often it was logged without another in between."""

    time_s: float
    """When it was logged last, in seconds since the epoch."""
    level: str
    logger: str
    message: str
    times: int = 1


class RecentWarnings(logging.Handler):
    """Keeps what is logged as a warning or worse; the oldest are dropped first."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        super().__init__(logging.WARNING)
        self._kept: deque[RecentWarning] = deque(maxlen=most)
        self.dropped = 0
        """How many were logged and are not kept any more."""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record; the caller holds the handler's lock."""
        try:
            new = _warning_of(record)
        except Exception:
            self.handleError(record)
            return
        last = self._kept[-1] if self._kept else None
        if last is not None and (last.logger, last.message) == (new.logger, new.message):
            self._kept[-1] = replace(new, times=last.times + 1)
            return
        self.dropped += len(self._kept) == self._kept.maxlen
        self._kept.append(new)

    def listed(self) -> list[dict[str, Any]]:
        """Return what is kept, the newest first."""
        self.acquire()
        try:
            return [asdict(each) for each in reversed(self._kept)]
        finally:
            self.release()


def _warning_of(record: logging.LogRecord) -> RecentWarning:
    text = record.getMessage()
    if record.exc_info and record.exc_info[1] is not None:
        # The traceback stays in the log: it may show values that nothing here knows to be secret.
        text = f"{text}: {type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
    return RecentWarning(record.created, record.levelname.lower(), record.name, without_secrets(text))


def without_secrets(text: str) -> str:
    """Return a message in one bounded piece without passwords, tokens, seeds and JWTs."""
    text = text[: 4 * MOST_LETTERS]  # what a hostile name makes long must not take long
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"
