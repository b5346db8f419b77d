"""A store that is copied into a journal is complete there, or is not there; a retry completes it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headwater.journal.head_journal import HeadJournal, UnfitJournalError
from headwater.journal.journal_copy import JournalCopy
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.store.copy_source import CopyError, read_directory
from headwater.store.journal_target import JournalTarget
from headwater.store.journaled_contents import for_journal
from headwater.store.store_copy import BucketTarget, copy
from headwater.store.verify import verify
from headwater.table.prefix_owner import OWNER as PREFIX_OWNER
from journals import Head, folder_journal
from store import stores


class Interrupted(Exception):
    """The copy was stopped."""


class Places:
    """A store, and the journal and the bucket to which it is copied."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        asyncio.run(stores.make(tmp_path / "store"))
        self.journal: HeadJournal = folder_journal(tmp_path / "journal")
        self.bucket = Bucket(BucketAddress(f"file://{tmp_path}/tables"))
        self._attempts = 0

    def copy(self, *, steps: int = 0) -> int:
        """Copy, and stop after so many steps; return how many there were."""
        self._attempts += 1
        scratch, rebuilt = (self.tmp_path / f"{name}-{self._attempts}" for name in ("scratch", "rebuilt"))
        scratch.mkdir()
        rebuilt.mkdir()
        wanted = for_journal(read_directory(self.tmp_path / "store"), self.bucket, scratch)
        target = JournalTarget(JournalCopy(self.journal), BucketTarget(self.bucket), wanted.epoch, rebuilt)
        done: list[int] = []

        def advance(count: int) -> None:
            done.append(count)
            if len(done) == steps:
                raise Interrupted

        copy(wanted.contents, target, advance)
        return len(done)

    def taken_over(self) -> list[str]:
        """Return the problems of the store that an engine takes over."""
        store = self.tmp_path / "taken"
        Head(self.journal, store).shipper.close()
        return [str(found) for found in verify(store, stores.DISK, lambda said: None).findings]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def test_an_engine_takes_over_a_store_without_problems(places: Places) -> None:
    places.copy()
    assert places.taken_over() == []
    assert not [info.key for info in places.bucket.list() if ".copying" in info.key or "/copy" in info.key]
    with pytest.raises(CopyError, match="is not empty: choose another prefix"):
        places.copy()


def test_an_interrupted_copy_is_not_served_and_is_continued(places: Places) -> None:
    for steps in (1, 10, 25, 40):
        with pytest.raises(Interrupted):
            places.copy(steps=steps)
        with pytest.raises(UnfitJournalError, match="unfinished copy"):
            places.taken_over()
    places.copy()
    assert places.taken_over() == []


def test_what_the_journal_has_is_compared(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    put = JournalCopy.put

    def damaged(self: JournalCopy, name: str, data: bytes) -> None:
        put(self, name, data if name != "catalog.db" else data[:-1] + b"?")

    monkeypatch.setattr(JournalCopy, "put", damaged)
    with pytest.raises(CopyError, match=r"head/catalog\.db is not what was copied"):
        places.copy()
    with pytest.raises(UnfitJournalError, match="unfinished copy"):
        places.taken_over()


def test_a_prefix_that_an_engine_began_to_use_is_not_taken(places: Places) -> None:
    with pytest.raises(Interrupted):
        places.copy(steps=5)
    places.bucket.put(PREFIX_OWNER, b"an engine")
    with pytest.raises(CopyError, match="an engine uses"):
        places.copy()
