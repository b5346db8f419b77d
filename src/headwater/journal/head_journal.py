"""What a journal promises: records at dense positions, each written once by one engine."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from errno import EIO
from pathlib import Path
from typing import NamedTuple, Protocol

from headwater.errors import DiskError, Error


class JournalError(DiskError):
    """The journal did not do what was asked; after an append the outcome is unknown.

    It is a DiskError, because the callers that can retry treat both alike.
    """

    def __init__(
        self, address: str, operation: str, reason: str, *, is_answer: bool = False, is_login: bool = False
    ) -> None:
        """With `is_answer` the journal answered that it refuses; otherwise it may not have been reached.

        With `is_login` it refuses the credentials.
        """
        Error.__init__(self, f"cannot {operation} the journal {address}: {reason}")
        self.path = Path(address)
        self.operation = operation
        self.errno = EIO
        self.is_answer = is_answer
        self.is_login = is_login


class PositionTakenError(Exception):
    """The journal has a record at this position, or reports one: read it to be sure."""

    def __init__(self, position: int) -> None:
        super().__init__(f"position {position} is taken")
        self.position = position


class UnfitJournalError(Error):
    """The journal cannot hold a store; the message names the remedy."""


class MissingJournalError(UnfitJournalError):
    """There is no such journal, and it may not be created."""


class JournalPeer(NamedTuple):
    """A server that keeps a copy of the journal, besides the leader."""

    name: str
    is_current: bool
    is_offline: bool
    active_ns: int
    """How long ago it was last seen."""
    lag: int


class HeadJournal(Protocol):
    """Records at positions 1, 2, 3, …; every failure is a `JournalError`, and one thread at a time calls."""

    @property
    def address(self) -> str:
        """Return where the journal is, without credentials."""
        ...

    @property
    def copies(self) -> int:
        """Return how many copies of a record are kept, as far as the journal says."""
        ...

    def peers(self) -> list[JournalPeer]:
        """Return the servers that keep copies, without the one that leads; none if they are not known."""
        ...

    def append(self, position: int, record: bytes) -> None:
        """Return once the record is durably at this position, which must be the next one.

        If another record is there, or was there and was trimmed, raise `PositionTakenError`. If several
        callers append at one position, one succeeds.
        """
        ...

    def get(self, position: int) -> bytes | None:
        """Return the record at this position, None if there is none."""
        ...

    def last(self, known: int = 0) -> int:
        """Return the highest position, 0 if nothing was ever appended; `known` is one that was reached.

        While another engine appends, it may be one that was the highest a moment ago.
        """
        ...

    def read(self, first: int, last: int) -> Iterator[bytes]:
        """Yield the records of these positions in order; raise if one is missing."""
        ...

    def trim(self, below: int, keep: Collection[int]) -> None:
        """Remove the records below a position that are not in `keep`; one that stays does no harm.

        Where an append is refused only by the record at its position, no record of a take-over is removed.
        """
        ...

    def close(self) -> None:
        """Release what the journal uses here."""
        ...
