"""Writes the head of a store into an empty journal, so that an engine can take it over from there.

All records but the last are of the kind COPYING, and no engine takes over after one of those. The last record
is that of an engine that ended. So a copy that was interrupted is never served. The next attempt begins after
its records, which are below its own floor and are ignored.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

from headwater.errors import CorruptionError
from headwater.journal.appender import Appender, JournalFencedError
from headwater.journal.head_journal import HeadJournal, UnfitJournalError
from headwater.journal.rebuilding import Rebuilding
from headwater.journal.record import PIECE_BYTES, ChangePiece, FileOp, RecordKind, decode, parts

RECORD_BYTES = PIECE_BYTES + (128 << 10)
"""A record is closed when its pieces have this much data."""
MOST_PIECES = 4096
PIECE_OVERHEAD = 48
PATIENCE_S = 20.0
"""How long a journal that does not answer is tried; the election of a new leader takes up to 10 s."""


class JournalCopy:
    """One attempt to write a store into a journal."""

    def __init__(self, journal: HeadJournal) -> None:
        self._journal = journal
        self._appender: Appender | None = None
        """None until the copy has begun."""
        self._first = 0
        """The position of our first record."""
        self._pieces: list[ChangePiece] = []
        """What is not appended yet."""
        self._nbytes = 0
        """The size of these pieces."""

    @property
    def address(self) -> str:
        """Return where the journal is, without credentials."""
        return self._journal.address

    def require_empty(self) -> int:
        """Return the last position; raise unless the journal is empty, or has only unfinished copies."""
        last = self._journal.last()
        if last and not self._is_unfinished(last):
            raise UnfitJournalError(
                f"the journal {self._journal.address} is not empty: choose another name or prefix"
            )
        return last

    def _is_unfinished(self, last: int) -> bool:
        found = self._journal.get(last)
        try:
            return found is not None and decode(found, self._journal.address, last).kind == RecordKind.COPYING
        except CorruptionError:
            return False

    def begin(self, epoch: int) -> None:
        """Return once the journal is marked as an unfinished copy; engines will have a higher epoch."""
        last = self.require_empty()
        owner = f"process {os.getpid()} on {socket.gethostname()}"
        self._appender = Appender(self._journal, uuid4().hex, epoch, owner, last)
        self._first = last + 1
        self._append(RecordKind.COPYING, ())

    def put(self, name: str, data: bytes) -> None:
        """Write a whole file, at the latest when the copy is read or finished."""
        for piece in parts(FileOp.WHOLE, name, 0, data):
            size = len(piece.data) + len(piece.path) + PIECE_OVERHEAD
            if self._nbytes + size > RECORD_BYTES or len(self._pieces) >= MOST_PIECES:
                self._flush()
            self._pieces.append(piece)
            self._nbytes += size

    def rebuild(self, folder: Path) -> None:
        """Write what an engine would take over to a folder."""
        self._flush()
        rebuilding = Rebuilding(folder)
        found = self._journal.read(self._first, self._appended().last)
        for position, encoded in enumerate(found, self._first):
            rebuilding.apply(decode(encoded, self._journal.address, position))

    def finish(self) -> None:
        """Return once an engine can take over."""
        self._flush()
        self._append(RecordKind.CLOSED, ())
        last = self._appended().last
        if self._journal.last() != last:
            # We were held up, and our positions were used and trimmed long ago (decision 0052).
            raise UnfitJournalError(f"an engine has used the journal {self._journal.address} meanwhile")
        self._journal.trim(self._first, ())

    def _flush(self) -> None:
        if self._pieces:
            self._append(RecordKind.COPYING, self._pieces)
            self._pieces, self._nbytes = [], 0

    def _append(self, kind: RecordKind, pieces: Iterable[ChangePiece]) -> None:
        until = time.monotonic() + PATIENCE_S
        try:
            self._appended().append(kind, tuple(pieces), self._first, lambda error: time.monotonic() > until)
        except JournalFencedError as error:
            raise UnfitJournalError(
                f"the journal {self._journal.address} is used by another process: {error.owner}"
            ) from error

    def _appended(self) -> Appender:
        assert self._appender is not None, "the copy has not begun"
        return self._appender
