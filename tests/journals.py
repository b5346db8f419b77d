"""Journals for tests, and the head of a store that is opened on one, as an engine does it."""

from __future__ import annotations

import time
from pathlib import Path

from headwater.errors import DiskError, FencedError
from headwater.journal.head_journal import HeadJournal, JournalError
from headwater.journal.jetstream_journal import JetStreamJournal, JetStreamPlace
from headwater.journal.journaled_disk import JournaledDisk
from headwater.journal.object_journal import ObjectJournal
from headwater.journal.shipper import Shipper
from headwater.journal.takeover import TakenOver, Takeover
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket

PATIENCE_S = 60


def folder(path: Path) -> Bucket:
    """Return the objects of a local folder."""
    return Bucket(BucketAddress(f"file://{path}"))


def folder_journal(path: Path) -> ObjectJournal:
    """Return a journal in a local folder."""
    return ObjectJournal(folder(path))


def jetstream_journal(place: JetStreamPlace) -> JetStreamJournal:
    """Return a journal in a cluster, which may still be choosing its leader."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return JetStreamJournal(place)
        except JournalError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


class Head:
    """A store's head on a journal, and why it was lost."""

    def __init__(self, journal: HeadJournal, store: Path) -> None:
        """Take over at once, as if an earlier owner had been silent for long."""
        store.mkdir(parents=True, exist_ok=True)
        self.store = store
        self.lost: list[str] = []
        taken = taken_over(journal, store)
        contents = taken.rebuilding.contents
        self.appender = taken.appender
        self.shipper = Shipper(journal, taken.appender, contents, taken.records, taken.keep, self._lose)
        self.disk = JournaledDisk(store, self.shipper, taken.rebuilding.lengths(contents.names()))
        self.shipper.start(self.disk.rewrite)

    def _lose(self, reason: str) -> FencedError:
        self.lost.append(reason)
        return FencedError(self.store, self.appender.epoch, reason)

    def files(self) -> dict[str, bytes]:
        """Return the files of the head."""
        found = sorted(path for path in self.store.rglob("*") if path.is_file())
        return {str(path.relative_to(self.store)): path.read_bytes() for path in found}


def taken_over(journal: HeadJournal, store: Path, expected: str = "") -> TakenOver:
    """Return the store, taken over without waiting for a silent owner."""
    takeover = Takeover(journal, store, 0, expected, lambda journal_id: None, lambda: False)
    while True:
        taken = takeover.take_now()
        if taken is not None:
            return taken


def eventually(call: object) -> None:
    """Call until the disk does not refuse any more."""
    assert callable(call)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            call()
            return
        except DiskError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
