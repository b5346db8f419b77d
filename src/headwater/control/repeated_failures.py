"""Repeated failures, logged once: a full disk fails every attempt in the same way."""

from __future__ import annotations

import logging
from collections.abc import Hashable

logger = logging.getLogger(__name__)

AGAIN_NS = 300 * 1_000_000_000
"""How long after it was logged the same failure is logged again, with the number of repeats."""


class RepeatedFailures:
    """Remembers the last logged failure of each subject."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[str, int, int]] = {}
        """The logged text, when it was logged, and how often it was repeated since."""

    def failed(self, about: Hashable, who: str, why: str, now_ns: int) -> None:
        """Log a failure, unless it is the one that was logged last."""
        known, logged_ns, count = self._known.get(about, ("", 0, 0))
        if known == why and now_ns - logged_ns < AGAIN_NS:
            self._known[about] = (known, logged_ns, count + 1)
            return
        again = f" ({count} more times since this was logged last)" if known == why and count else ""
        self._known[about] = (why, now_ns, 0)
        logger.error("%s: %s%s", who, why, again)

    def ended(self, about: Hashable, who: str) -> None:
        """Log that an operation works again, if it had failed."""
        known = self._known.pop(about, None)
        if known is not None and known[2]:
            logger.info("%s works again, after %d failures", who, known[2] + 1)

    def forget(self, about: Hashable) -> None:
        """Forget a subject that does not exist any more."""
        self._known.pop(about, None)
