"""Reads the row groups of a table's files; the footers that were needed last stay in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from errno import ENOENT
from pathlib import Path

from headwater.errors import CorruptionError, DiskError, Error
from headwater.objects.object_error import ObjectError
from headwater.table import parquet
from headwater.table.datafile import DataFile
from headwater.table.delta_log import ConflictError
from headwater.table.delta_recovery import REPAIR
from headwater.table.output import footer_crc_of
from headwater.table.row_group import RowGroup
from headwater.table.schema import folder_of
from headwater.table.stored_bytes import ByteSpan
from headwater.table.table_storage import TableStorage

Groups = tuple[tuple[int, int], ...]
"""The first and the last sequence of each row group of a file."""
KEPT_FOOTERS = 32
EXPECTED_GROUPS = 4
"""How many row groups are fetched ahead from a bucket once a reader goes through a file in order."""
READERS = 16
"""How many such readers of one table are noticed."""


class GroupReader:
    """Reads the files of one table; any thread may call it."""

    def __init__(
        self, storage: TableStorage, partitions: Sequence[str], is_current: Callable[[DataFile], bool]
    ) -> None:
        self._storage = storage
        self._partitions = partitions
        self._is_current = is_current
        """Returns whether a file belongs to the current version of the table."""
        self._footers: OrderedDict[str, parquet.Footer] = OrderedDict()
        """By path, least recently used first."""
        self._last_reads: deque[tuple[str, int]] = deque(maxlen=READERS)
        """The files and row groups that were read last."""
        self._lock = threading.Lock()

    def groups(self, file: DataFile) -> Groups:
        """Return the bounds of the file's row groups."""
        return _groups(file, self._footer(file))

    def known_groups(self, file: DataFile) -> Groups | None:
        """Return the bounds of the file's row groups, None if the footer is not in memory."""
        with self._lock:
            footer = self._footers.get(file.path)
        return None if footer is None else _groups(file, footer)

    def latest_times(self, file: DataFile) -> tuple[int, ...]:
        """Return for each row group a time that none of its messages is later than."""
        if file.copied is not None:
            return (file.last_ts,) * len(self.groups(file))
        return parquet.latest_times(self._footer(file), file.last_ts)

    def read(self, file: DataFile, index: int) -> RowGroup:
        """Return the messages of one row group, with all checksums verified."""
        try:
            opened, footer = self._storage.open(file.path), self._footer(file)
            self._expect_next(file, footer, index)
            return parquet.read_group(opened, footer, index, file.base_seq, file.copied)
        except (OSError, ObjectError) as error:
            raise self._unreadable(file, error) from error

    def _expect_next(self, file: DataFile, footer: parquet.Footer, index: int) -> None:
        """Prepare for the next row groups of a file whose row groups are read one after the other."""
        with self._lock:
            is_next = (file.path, index - 1) in self._last_reads
            self._last_reads.append((file.path, index))
        if not is_next:
            return
        following = range(index + 1, min(index + 1 + EXPECTED_GROUPS, len(footer.places)))
        places = [(*footer.places[each], footer.group_crcs[each]) for each in following]
        self._storage.expect(file.path, [ByteSpan(start, stop - start, crc) for start, stop, crc in places])

    def forget(self, files: Iterable[DataFile]) -> None:
        """Release the footers of files that were removed from the table."""
        with self._lock:
            for file in files:
                self._footers.pop(file.path, None)

    def clear(self) -> None:
        """Release all footers."""
        with self._lock:
            self._footers.clear()

    def _footer(self, file: DataFile) -> parquet.Footer:
        with self._lock:
            footer = self._footers.get(file.path)
            if footer is not None:
                self._footers.move_to_end(file.path)
                return footer
        try:
            footer = parquet.read_footer(self._storage.open(file.path), footer_crc_of(file.path))
        except (OSError, ObjectError) as error:
            raise self._unreadable(file, error) from error
        self._require_agreement(file, footer)
        with self._lock:
            self._footers[file.path] = footer
            if len(self._footers) > KEPT_FOOTERS:
                self._footers.popitem(last=False)
        return footer

    def _require_agreement(self, file: DataFile, footer: parquet.Footer) -> None:
        """Raise unless commit and file agree: otherwise messages would get wrong sequences."""
        said = (file.first_seq - file.base_seq, file.last_seq - file.base_seq, file.rows)
        held = (footer.bounds[0][0], footer.bounds[-1][1], footer.metadata.num_rows)
        folder = folder_of(file.base_seq, file.copied, self._partitions)
        if said != held or str(Path(file.path).parent) != folder:
            what = f"it does not match its entry in the Delta log; {REPAIR}"
            raise CorruptionError(self._path(file), 0, what)

    def _unreadable(self, file: DataFile, error: OSError | ObjectError) -> Error:
        """Return what a failed read means: damage, a reader that is too late, or a broken disk."""
        if error.errno != ENOENT:
            return (
                error if isinstance(error, Error) else DiskError(self._path(file), "read", error.errno or 0)
            )
        if self._is_current(file):
            return CorruptionError(self._path(file), 0, "the file is missing")
        return ConflictError(f"{file.path} was replaced, and swept after the grace")

    def _path(self, file: DataFile) -> Path:
        return self._storage.directory / file.path


def _groups(file: DataFile, footer: parquet.Footer) -> Groups:
    base = file.base_seq
    return tuple((base + first, base + last) for first, last in footer.bounds)
