"""A data file that is being written: under a temporary name, then durable under its own."""

from __future__ import annotations

import uuid
from pathlib import Path
from types import TracebackType

from headwater.errors import DiskError
from headwater.model.columns import Columns
from headwater.table.datafile import DataFile
from headwater.table.parquet import FileWriter
from headwater.table.table_storage import TEMPORARY, TableStorage


class Output:
    """A file that takes messages until it is finished; leaving the `with` before that removes it."""

    def __init__(self, storage: TableStorage, folder: str, base_seq: int, compression: str) -> None:
        """Begin a file in a folder of the table."""
        self._storage = storage
        self._base_seq = base_seq
        self._id = uuid.uuid4().hex
        self._folder = folder
        self._temporary = storage.begin(folder, f"part-{self._id}{TEMPORARY}")
        self._finished = False
        try:
            self._writer = FileWriter(self._temporary, base_seq, compression)
        except OSError as error:
            raise DiskError(self._temporary, "write", error.errno or 0) from error

    def __enter__(self) -> Output:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._finished:
            self.abandon()

    @property
    def rows(self) -> int:
        """Return how many messages were taken so far."""
        return self._writer.rows

    @property
    def size_bytes(self) -> int:
        """Return the length of the file so far, without the last messages taken."""
        return self._writer.size_bytes

    def append(self, columns: Columns) -> None:
        """Take messages."""
        try:
            self._writer.append(columns)
        except OSError as error:
            raise DiskError(self._temporary, "write", error.errno or 0) from error

    def finish(self) -> DataFile:
        """Return the file once it would survive a power cut; nothing refers to it yet."""
        try:
            stats = self._writer.finish()
        except OSError as error:
            raise DiskError(self._temporary, "write", error.errno or 0) from error
        path = f"{self._folder}/part-{self._id}-{stats.footer_crc:08x}.parquet"
        self._storage.finish(self._temporary, path)
        self._finished = True
        return DataFile.of(path, self._base_seq, stats.content)

    def abandon(self) -> None:
        """Remove the file; if that fails, the next open removes it."""
        try:
            self._writer.abandon()
            self._storage.abandon(self._temporary)
        except (OSError, DiskError):
            pass


def footer_crc_of(path: str) -> int | None:
    """Return the footer checksum in a data file's name, None if it has none."""
    try:
        return int(Path(path).stem.rsplit("-", 1)[1], 16)
    except (IndexError, ValueError):
        return None
