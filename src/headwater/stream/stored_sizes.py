"""How much of a stream is in its log and in its table."""

from __future__ import annotations

from headwater.stream.store import Store
from headwater.table.datafile import DataFile


class StoredSizes:
    """The sizes of a stream's parts on disk, read without waiting."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._files: tuple[DataFile, ...] = ()
        """The files that `_table_bytes` sums up; each commit of the table replaces the tuple."""
        self._table_bytes = 0

    @property
    def unfolded_messages(self) -> int:
        """Return how many messages of the log are not in the table yet."""
        return self._store.head.messages

    @property
    def log_bytes(self) -> int:
        """Return the size of the log."""
        return self._store.log.size_bytes

    @property
    def files(self) -> tuple[DataFile, ...]:
        """Return the data files of the current version of the table, in the order of their sequences."""
        return self._store.table.files

    @property
    def table_version(self) -> int:
        """Return the number of that version."""
        return self._store.table.version

    @property
    def table_files(self) -> int:
        """Return how many data files the current version of the table has."""
        return len(self._store.table.files)

    @property
    def table_bytes(self) -> int:
        """Return the size of these files."""
        files = self._store.table.files
        if files is not self._files:
            self._files, self._table_bytes = files, sum(file.size_bytes for file in files)
        return self._table_bytes
