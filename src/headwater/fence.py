"""Whether this engine still owns its store: checked after every sync, before anything is acknowledged."""

from __future__ import annotations

import logging
from typing import Protocol

from headwater.errors import DiskError

logger = logging.getLogger(__name__)


class Fence(Protocol):
    """Keeps an engine that lost its store from acknowledging or changing anything."""

    @property
    def epoch(self) -> int:
        """Return the epoch of this ownership: each takeover of the store raises it."""
        ...

    def check(self) -> None:
        """Return if this engine owns the store; raise `FencedError`, now and on every later call, if not."""
        ...


class NoFence:
    """The fence of a store that no other engine can own: a store in memory, or a test's."""

    epoch = 0

    def check(self) -> None:
        """Do nothing."""


NO_FENCE = NoFence()


def check_committed(fence: Fence) -> None:
    """Raise `FencedError` if the store has another owner, after a change that cannot be undone.

    An unreadable epoch file is only logged. The change is on disk, the epoch was checked before it, and is
    checked again soon. To report a failure would leave memory in another state than the disk.
    """
    try:
        fence.check()
    except DiskError as error:
        logger.warning("cannot check whether this engine still owns its store: %s", error)
