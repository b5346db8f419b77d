"""Whether this engine still owns its store: asked after every sync, before anything is acknowledged."""

from __future__ import annotations

import logging
from typing import Protocol

from headwater.errors import DiskError

logger = logging.getLogger(__name__)


class Fence(Protocol):
    """What stands between an engine that lost its store and everything that it would still write."""

    @property
    def epoch(self) -> int:
        """Return the number of this ownership: each take-over of the store has a higher one."""
        ...

    def check(self) -> None:
        """Return if the store is still ours at this moment; raise `FencedError` now and for ever if not."""
        ...


class NoFence:
    """For what nobody else can own: a store in memory, a test."""

    epoch = 0

    def check(self) -> None:
        """Return."""


NO_FENCE = NoFence()


def check_committed(fence: Fence) -> None:
    """Raise `FencedError` if the store is not ours, after a change that cannot be taken back any more.

    An owner's record that cannot be read says nothing. The change was made, the record was read before it,
    and it is read again soon: to report a failure would leave us with another state than the disk has.
    """
    try:
        fence.check()
    except DiskError as error:
        logger.warning("it is not known whether the store is still ours: %s", error)
