"""Takes over a store from its journal: waits for a silent owner, reads to the end, appends its own record.

The owner appends a record at least every second. Silence of a few seconds decides only *when* another engine
tries. Who is right is decided by the append: of two engines that append at one position, one succeeds.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from headwater.errors import CorruptionError, DiskError, StoreLockedError
from headwater.journal.appender import Appender, JournalFencedError
from headwater.journal.head_journal import HeadJournal, JournalError, UnfitJournalError
from headwater.journal.rebuilding import Rebuilding
from headwater.journal.record import Record, RecordKind, decode

logger = logging.getLogger(__name__)

SILENCE_S = 3.5
"""How long an owner may append nothing before another engine tries to take over."""
RETURN_S = 2.5
"""How long it is left alone after the journal did not answer us."""
LOOK_S = 0.25
MOST_TRIES = 100


class TakenOver(NamedTuple):
    """A store as it was when this engine took it over."""

    appender: Appender
    rebuilding: Rebuilding
    records: dict[int, int]
    """The sizes of the records by their positions."""
    keep: frozenset[int]
    """Positions of records that show earlier engines that they are fenced."""


def require_finished(final: Record, address: str) -> None:
    """Refuse a journal whose last record is one of a copy: the rest of the store is missing."""
    if final.kind == RecordKind.COPYING:
        raise UnfitJournalError(
            f"the journal {address} has an unfinished copy of a store: run the same `headwater store copy` "
            "again"
        )


class Takeover:
    """One engine's attempts to own a journal."""

    def __init__(
        self,
        journal: HeadJournal,
        store: Path,
        epoch: int,
        expected: str,
        mark: Callable[[str], None],
        is_over: Callable[[], bool],
    ) -> None:
        """The journal must have the id `expected`, unless that is empty; our epoch will be above `epoch`.

        `mark` is called with the id of the journal before the directory is changed.
        """
        self._journal = journal
        self._store = store
        self._epoch = epoch
        self._expected = expected
        self._mark = mark
        self._is_over = is_over
        """Returns whether the wait was ended from outside."""
        self._owner = f"process {os.getpid()} on {socket.gethostname()}"

    def run(self, on_owner: Callable[[str], None] | None) -> TakenOver:
        """Return once this engine owns the store.

        While another engine is alive, wait and report it to `on_owner`; without that, raise.
        """
        for _ in range(MOST_TRIES):
            self._await_silence(on_owner)
            taken = self.take_now()
            if taken is not None:
                return taken
        raise UnfitJournalError(
            f"the journal {self._journal.address} is being taken over repeatedly by other engines"
        )

    def _await_silence(self, on_owner: Callable[[str], None] | None) -> None:
        """Return when the last record says that its engine ended, or when no record follows it."""
        known = ""
        last = self._journal.last()
        while last:
            record = self._record(last)
            self._require(record)
            if record.kind == RecordKind.CLOSED:
                return
            newer = self._later(last)
            if newer == last:
                return
            last, owner = newer, record.owner.removeprefix("process ")
            if on_owner is None or self._is_over():
                raise StoreLockedError(self._store, owner)
            self._remember(record)
            if owner != known:
                on_owner(owner)
            known = owner

    def _remember(self, record: Record) -> None:
        """Keep which journal this is: if it is empty or gone later, it is not a new one."""
        if not self._expected:
            self._mark(record.journal)
            self._expected = record.journal

    def _later(self, last: int) -> int:
        """Return a later position than this one, or the same after a while of silence."""
        until = time.monotonic() + SILENCE_S
        while time.monotonic() < until:
            time.sleep(LOOK_S)
            if self._is_over():
                raise StoreLockedError(self._store, "")
            try:
                newer = self._journal.last(last)
            except DiskError:
                # The owner was cut off, too. It gets the time to return before us.
                until = max(until, time.monotonic() + RETURN_S)
                continue
            if newer > last:
                return newer
        # What follows may have been trimmed already; this looks from the start.
        return max(last, self._journal.last())

    def _record(self, position: int) -> Record:
        found = self._journal.get(position)
        if found is None:
            # Not final: an owner that is alive appends the next one.
            raise JournalError(self._journal.address, "read", f"its last record, {position}, is missing")
        return decode(found, self._journal.address, position)

    def take_now(self) -> TakenOver | None:
        """Read to the end and append our record; return None if another engine appended meanwhile."""
        last = self._journal.last()
        rebuilding = Rebuilding(self._store)
        try:
            final = self._record(last) if last else None
            self._require(final)
            if final is not None:
                self._mark(final.journal)
            rebuilding.clear()
            records, kept = self._apply(rebuilding, final)
        except (CorruptionError, JournalError):
            # An owner that is alive may have trimmed what we were reading.
            if self._journal.last() > last:
                return None
            raise
        epoch = max(self._epoch, final.epoch if final else 0) + 1
        journal_id = final.journal if final else uuid4().hex
        appender = Appender(self._journal, journal_id, epoch, self._owner, last)
        floor = min(rebuilding.contents.floor(last + 1), last + 1)
        try:
            records[last + 1] = appender.append(RecordKind.TAKEOVER, (), floor)
        except JournalFencedError as error:
            logger.info("another engine took over first: %s", error.owner)
            return None
        if self._journal.last() > last + 1:
            # We were delayed: others appended at our position and beyond, and trimmed it before we did.
            logger.info("another engine was faster, and took our position long ago")
            return None
        self._mark(journal_id)
        rebuilding.contents.abandon()
        return TakenOver(appender, rebuilding, records, frozenset(kept | {last + 1}))

    def _apply(self, rebuilding: Rebuilding, final: Record | None) -> tuple[dict[int, int], set[int]]:
        """Apply all records that are needed; return their sizes, and the positions of earlier take-overs."""
        records: dict[int, int] = {}
        kept: set[int] = set()
        if final is None:
            return records, kept
        found = self._journal.read(final.floor, final.position)
        for position, encoded in enumerate(found, final.floor):
            record = decode(encoded, self._journal.address, position)
            records[position] = len(encoded)
            if record.kind == RecordKind.TAKEOVER:
                kept.add(position)
            rebuilding.apply(record)
        return records, kept

    def _require(self, final: Record | None) -> None:
        """Refuse an unfinished copy, and a journal that this directory was not written from."""
        if final is not None:
            require_finished(final, self._journal.address)
        if not self._expected:
            return
        if final is None:
            raise UnfitJournalError(
                f"the journal {self._journal.address} is empty, but {self._store} was written from it "
                "before: check the address, or use an empty directory for a new store"
            )
        if final.journal != self._expected:
            raise UnfitJournalError(
                f"the journal {self._journal.address} belongs to a different store than {self._store}: check "
                "the address, or use an empty directory"
            )
