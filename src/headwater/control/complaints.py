"""What goes wrong again and again, logged once: a disk that is full fails every attempt in the same way."""

from __future__ import annotations

import logging
from collections.abc import Hashable

logger = logging.getLogger(__name__)

AGAIN_NS = 300 * 1_000_000_000
"""So long after it was logged the same failure is logged again, with how often it came meanwhile."""


class Complaints:
    """Remembers what was logged about each subject of complaint."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[str, int, int]] = {}
        """What was logged, when, and how often it came since."""

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
        """Log that what failed goes on, if it had failed."""
        known = self._known.pop(about, None)
        if known is not None and known[2]:
            logger.info("%s goes on, after %d failures", who, known[2] + 1)

    def forget(self, about: Hashable) -> None:
        """Forget a subject of complaint that is gone."""
        self._known.pop(about, None)
