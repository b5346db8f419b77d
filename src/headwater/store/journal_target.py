"""A store that is copied into an empty journal: its head goes there, its tables to a bucket."""

from __future__ import annotations

from pathlib import Path

from headwater.journal.journal_copy import JournalCopy
from headwater.store.copy_source import HEAD, CopiedFile, CopyItem, StoreContents
from headwater.store.store_copy import BucketTarget


class JournalTarget:
    """A journal, and the prefix of a bucket that gets the tables; without one they stay where they are."""

    def __init__(self, journal: JournalCopy, tables: BucketTarget | None, epoch: int, folder: Path) -> None:
        """What the journal has is written to `folder`, to be compared."""
        self._journal = journal
        self._tables = tables
        self._epoch = epoch
        self._folder = folder
        self._is_rebuilt = False
        """Whether the folder has what was written."""

    def require_usable(self, store_id: str) -> None:
        """Raise unless the target is empty, or holds an unfinished copy of this store; change nothing."""
        if self._tables is not None:
            self._tables.require_usable(store_id)
        self._journal.require_empty()

    def begin(self, store_id: str) -> None:
        """Return once no engine takes over from the journal until the copy is complete."""
        # The bucket first: it is tested, and the journal stays empty if it fails its test.
        if self._tables is not None:
            self._tables.begin(store_id)
        self._journal.begin(self._epoch)

    def size_of(self, name: str) -> int:
        """Return the size of a file that was copied, -1 if there is none."""
        return -1 if self._is_head(name) or self._tables is None else self._tables.size_of(name)

    def put(self, item: CopyItem, data: bytes) -> None:
        """Return once a table's file is durable; the head is at the latest when it is read."""
        if self._is_head(item.name):
            self._journal.put(item.name.removeprefix(f"{HEAD}/"), data)
        else:
            self._bucket().put(item, data)

    def read(self, name: str) -> bytes:
        """Return a file as an engine would take it over."""
        if not self._is_head(name):
            return self._bucket().read(name)
        if not self._is_rebuilt:
            self._journal.rebuild(self._folder)
            self._is_rebuilt = True
        return (self._folder / name.removeprefix(f"{HEAD}/")).read_bytes()

    def finish(self, contents: StoreContents, files: list[CopiedFile]) -> None:
        """Return once an engine can take over."""
        # The journal goes last: its last record makes the copy usable.
        if self._tables is not None:
            self._tables.settle(contents, [file for file in files if not self._is_head(file.name)])
        self._journal.finish()
        if self._tables is not None:
            self._tables.unmark()

    def end(self) -> None:
        """Do nothing: neither is locked."""

    def _bucket(self) -> BucketTarget:
        assert self._tables is not None, "a copy whose tables stay has no files of tables"
        return self._tables

    @staticmethod
    def _is_head(name: str) -> bool:
        return name.startswith(f"{HEAD}/")
