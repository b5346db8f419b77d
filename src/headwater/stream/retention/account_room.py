"""How many more bytes a stream may store before its account holds more than it may."""

from __future__ import annotations

from collections.abc import Callable

from headwater.errors import api_error
from headwater.model.stream import Storage
from headwater.stream.ledger import Ledger

FreeBytes = Callable[[Storage], int | None]
"""Returns what an account may store beyond all that its streams hold; None without a limit."""


class AccountRoom:
    """The room for the messages of one stream, as of the last `refresh` and what was stored since.

    Like nats-server, it does not count what a message is about to remove.
    """

    def __init__(self, storage: Storage, ledger: Ledger, free_bytes: FreeBytes) -> None:
        self._storage = storage
        self._ledger = ledger
        self._free_bytes = free_bytes
        self._free: int | None = None
        """Free bytes as of the last refresh; None without a limit."""
        self._size = 0
        """The size of the stream when the room was asked for."""

    def refresh(self) -> None:
        """Ask again what the account's streams hold."""
        self._free = self._free_bytes(self._storage)
        self._size = self._ledger.size

    @property
    def is_limited(self) -> bool:
        """Return whether the account has a limit at all."""
        return self._free_bytes(self._storage) is not None

    def fits(self, size: int) -> bool:
        """Return whether messages of this size may be stored."""
        return self._free is None or size <= self._free - (self._ledger.size - self._size)

    def check(self, size: int) -> None:
        """Refuse messages of this size if the account has no room for them."""
        if not self.fits(size):
            raise api_error("account_resources_exceeded")
