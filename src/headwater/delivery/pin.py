"""The client that a consumer is pinned to: it alone gets messages, until it is silent for too long."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from headwater.model.unique import unique_id

_MOST_CHANGES = 64
"""How many changes are kept until they are taken."""


class PinChange(NamedTuple):
    """A client was pinned, or unpinned for a reason."""

    group: str
    id: str
    reason: str = ""
    """Why it was unpinned: `timeout` or `admin`; empty if it was pinned."""


class Pin:
    """At most one pinned client; `id` is empty while there is none."""

    __slots__ = ("_changes", "_group", "_heard_ns", "id", "pinned_ns")

    def __init__(self) -> None:
        self.id = ""
        """The id of the pinned client; empty while there is none."""
        self.pinned_ns = 0
        self._group = ""
        """The priority group of the pinned client."""
        self._heard_ns = 0
        """When the pinned client last sent a request."""
        self._changes: deque[PinChange] = deque(maxlen=_MOST_CHANGES)
        """Changes that are not reported yet."""

    def assign(self, group: str, now_ns: int) -> str:
        """Pin a client of this group and return its id."""
        self.id = unique_id()
        self.pinned_ns = self._heard_ns = now_ns
        self._group = group
        self._changes.append(PinChange(group, self.id))
        return self.id

    def heard(self, now_ns: int) -> None:
        """Record that the client has sent a request."""
        self._heard_ns = now_ns

    def release(self, reason: str) -> bool:
        """Unpin the client; return whether there was one."""
        if not self.id:
            return False
        self._changes.append(PinChange(self._group, self.id, reason))
        self.id = ""
        self.pinned_ns = 0
        return True

    def deadline(self, timeout: int) -> int | None:
        """Return when the client must have sent another request, or None."""
        return self._heard_ns + timeout if self.id and timeout > 0 else None

    def take_changes(self) -> list[PinChange]:
        """Return and remove the changes, for advisories."""
        changes = list(self._changes)
        self._changes.clear()
        return changes
