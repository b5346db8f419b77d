"""One stream's body: the Delta table, its files in sequence order, and every step that changes them."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from pyroaring import BitMap64

from headwater.disk import Disk
from headwater.errors import CorruptionError
from headwater.model.adopted import Adopted
from headwater.model.columns import Columns
from headwater.table import table_snapshot
from headwater.table.datafile import DataFile, FileContent
from headwater.table.delta_log import ConflictError, DeltaLog
from headwater.table.delta_recovery import REPAIR, has_log, has_torn
from headwater.table.found_file import FoundFile, read_found
from headwater.table.group_reader import GroupReader, Groups
from headwater.table.live_rows import Dead, live_columns
from headwater.table.output import Output
from headwater.table.parquet import PACKED
from headwater.table.row_group import RowGroup
from headwater.table.schema import folder_of
from headwater.table.staging import Staging
from headwater.table.table_storage import LocalTableStorage, TableStorage

TARGET_FILE_BYTES = 128 << 20
TARGET_FILE_ROWS = 1_000_000
SWEEP_LIMIT = 256

__all__ = ["ConflictError", "Dead", "Table"]


class Table:
    """Files of messages; any thread may read, and one thread at a time may change them."""

    def __init__(
        self, storage: TableStorage, log: DeltaLog, compression: str, found: Collection[str] = ()
    ) -> None:
        self._storage = storage
        self._directory = storage.directory
        self._log = log
        # Bytes are slow in a bucket and cost money there, so data is always compressed.
        self._compression = PACKED if storage.is_atomic else compression
        self._changing = threading.Lock()
        """Held by the thread that changes the table."""
        self._files: tuple[DataFile, ...] = tuple(log.take_files())
        """Replaced as a whole by each commit, so that any thread may read it."""
        self._reader = GroupReader(storage, log.partitions, lambda file: file in self._files)
        self._uncommitted: set[str] = set()
        """The paths of finished files that wait for their commit, which a sweep must not remove."""
        self._unreferenced_since: dict[str, float] = {}
        """By path, when a sweep first found that no version refers to a file."""
        self._settled = storage.is_atomic or not has_torn(storage.directory, storage.disk)
        """Whether the files that no commit names are known to hold nothing that is needed."""
        self.has_unreferenced = not {file.path for file in self._files}.issuperset(found)
        """Whether there may be files that no version refers to, for a sweep to unlink."""
        self.is_confirmed = True
        """Whether its place has confirmed the version; otherwise it is the one of the last snapshot."""
        self._apps: Sequence[str] | None = None
        """The transactions of a snapshot; None if none is kept."""

    def commit_as(self, epoch: int) -> None:
        """Write the epoch of the engine that owns the store into each commit."""
        self._log.epoch = epoch

    @classmethod
    def open(cls, directory: Path, disk: Disk, *, compression: str = "none", name: str = "") -> Table:
        """Return the table of a directory, created if it is missing, and repaired after a crash."""
        return cls.open_on(LocalTableStorage(directory, disk), compression=compression, name=name)

    @classmethod
    def open_on(cls, storage: TableStorage, *, compression: str = "none", name: str = "") -> Table:
        """Return the table on this storage, created if it is missing."""
        storage.prepare()
        finished = list(storage.paths())
        if finished and not has_log(storage.directory, storage.disk):
            # A new log would refer to none of them, and they would be swept.
            raise CorruptionError(
                storage.directory / "_delta_log", 0, f"it is missing, but there are data files; {REPAIR}"
            )
        return cls(storage, DeltaLog.open_on(storage, name), compression, finished)

    @classmethod
    def of_snapshot(cls, storage: TableStorage, *, compression: str = "none") -> Table | None:
        """Return the table of the last snapshot, while its storage is unreachable; None if there is none."""
        snapshot = table_snapshot.decode(storage.saved())
        if snapshot is None:
            return None
        table = cls(storage, DeltaLog.of_snapshot(storage, snapshot), compression)
        table.is_confirmed = False
        return table

    def keep_snapshots(self, apps: Sequence[str]) -> None:
        """Keep a snapshot from now on of each version, with what was committed under these names."""
        self._apps = apps
        self._save()

    def _save(self) -> None:
        if self._apps is not None and self._storage.is_atomic:
            self._storage.save(table_snapshot.encode(self._log.snapshot(self._files, self._apps)))

    @property
    def files(self) -> tuple[DataFile, ...]:
        """Return the files of the current version, ascending by first sequence, never overlapping."""
        return self._files

    @property
    def missing(self) -> frozenset[DataFile]:
        """Return the files of the current version that are not there, as far as its place can be asked."""
        if not self.is_confirmed:
            return frozenset()
        there = set(self._storage.paths())
        return frozenset(file for file in self._files if file.path not in there)

    def found(self, file: DataFile) -> FoundFile:
        """Return a file with the sequences that can be read from it, none if it is damaged or missing."""
        try:
            stored = self._storage.open(file.path, uncached=True)
            return FoundFile(file, read_found(self._directory, file.path, stored).seqs)
        except CorruptionError:
            return FoundFile(file, BitMap64())

    def unreferenced(self) -> list[FoundFile]:
        """Return the files that no commit names and that pass all their checksums."""
        known = {file.path for file in self._files}
        found = []
        for path in self._storage.paths():
            if path not in known:
                try:
                    stored = self._storage.open(path, uncached=True)
                    found.append(read_found(self._directory, path, stored))
                except CorruptionError:
                    continue
        return found

    def settle(self) -> None:
        """Allow sweeps of unreferenced files: the stream has found all of its messages."""
        self._settled = True

    @property
    def directory(self) -> Path:
        """Return the directory of the table."""
        return self._directory

    @property
    def is_remote(self) -> bool:
        """Return whether the files are in a bucket, where a read may take long or fail."""
        return self._storage.is_atomic

    @property
    def version(self) -> int:
        """Return the number of the newest commit."""
        return self._log.version

    @property
    def records_sources(self) -> bool:
        """Return whether the table can link files of a source's origin."""
        return self._log.records_sources

    def transaction(self, app: str) -> int | None:
        """Return the number last committed under this name."""
        return self._log.transaction(app)

    def write(self, columns: Columns, base_seq: int = 0) -> DataFile:
        """Return a durable file of these messages that no commit refers to yet."""
        with self._output(base_seq) as output:
            output.append(columns)
            return self._remember(output.finish())

    def write_parts(self, parts: Iterable[Columns], max_bytes: int = TARGET_FILE_BYTES) -> list[DataFile]:
        """Return durable files of these messages that no commit refers to yet; none without messages."""
        written: list[DataFile] = []
        rest = iter(parts)
        try:
            while (columns := next(rest, None)) is not None:
                with self._output(0) as output:
                    output.append(columns)
                    while output.size_bytes < max_bytes and (columns := next(rest, None)) is not None:
                        output.append(columns)
                    written.append(self._remember(output.finish()))
        except BaseException:
            self.discard(written)
            raise
        return written

    def commit(
        self,
        add: Sequence[DataFile] = (),
        remove: Sequence[DataFile] = (),
        transactions: Mapping[str, int] | None = None,
    ) -> None:
        """Return once adds, removes and transactions are one durable version; on an error none of them is."""
        if not (add or remove or transactions):
            return
        with self._changing:
            files = _changed(self._files, add, remove)
            self._storage.require_owner()
            self._log.commit(add, remove, transactions or {})
            self._files = files
            self.is_confirmed = True
            self._save()
        self.has_unreferenced = self.has_unreferenced or bool(remove)
        self._uncommitted.difference_update(file.path for file in add)
        self._reader.forget(remove)

    def place(self, file: DataFile, base_seq: int) -> DataFile:
        """Return an uncommitted file durably moved to another base: offsets stay, sequences change."""
        folder = folder_of(base_seq, None, self._log.partitions)
        placed = file.at(base_seq, f"{folder}/{Path(file.path).name}")
        with self._changing:
            self._storage.make(folder)
            self._storage.move(file.path, placed.path)
            self._remember(placed)
        self.discard([file])
        return placed

    def adopt(self, staging: Path, adopted: Sequence[Adopted], transactions: Mapping[str, int]) -> None:
        """Return once finished files from another directory on this disk are durably part of the table.

        After a crash each file is where it was or in its folder; the same call continues from either.
        """
        files = [_adopted_file(each, self._log.partitions) for each in adopted]
        with self._changing:
            # Before they are moved: if a move fails, sweep must not remove those that were moved.
            for file in files:
                self._remember(file)
            self._storage.adopt(staging, [file.path for file in files])
        self.commit(add=files, transactions=transactions)

    @property
    def staging(self) -> Staging:
        """Return where transfer tasks leave files for the table."""
        return self._storage.staging

    @property
    def volume(self) -> str:
        """Return a name for where files can be linked, or copied by the server, without being read."""
        return self._storage.volume

    def address_of(self, file: DataFile) -> str:
        """Return where a transfer task finds a file."""
        return self._storage.address_of(file.path)

    def path_of(self, adopted: Adopted) -> str:
        """Return the path that a file has in the table once it is adopted."""
        return _adopted_file(adopted, self._log.partitions).path

    def discard(self, files: Sequence[DataFile]) -> None:
        """Release files that will not be committed; the next sweep removes them."""
        self._uncommitted.difference_update(file.path for file in files)
        self.has_unreferenced = self.has_unreferenced or bool(files)

    def groups(self, file: DataFile) -> Groups:
        """Return the first and the last sequence of each row group of the file."""
        return self._reader.groups(file)

    def latest_times(self, file: DataFile) -> tuple[int, ...]:
        """Return for each row group a time that none of its messages is later than."""
        return self._reader.latest_times(file)

    def known_groups(self, file: DataFile) -> Groups | None:
        """Return the same as `groups`, or None if that requires a read."""
        return self._reader.known_groups(file)

    def locate(self, seq: int) -> tuple[DataFile, int] | None:
        """Return the file and the row group whose range holds this sequence, if there is one."""
        files = self._files
        at = bisect_right(files, seq, key=lambda file: file.first_seq) - 1
        if at < 0 or seq > files[at].last_seq:
            return None
        groups = self.groups(files[at])
        index = bisect_right(groups, seq, key=lambda group: group[0]) - 1
        return (files[at], index) if index >= 0 and seq <= groups[index][1] else None

    def read_group(self, file: DataFile, index: int) -> RowGroup:
        """Return the messages of one row group, all checksums verified."""
        return self._reader.read(file, index)

    def rewrite(
        self,
        files: Sequence[DataFile],
        dead: Dead,
        first_seq: int,
        *,
        max_bytes: int = TARGET_FILE_BYTES,
        max_rows: int = TARGET_FILE_ROWS,
    ) -> list[DataFile]:
        """Return new uncommitted files with the rows of these that are neither dead nor below first_seq."""
        written: list[DataFile] = []
        rows = live_columns(self._reader, files, dead, first_seq)
        try:
            while (columns := next(rows, None)) is not None:
                with self._output(0) as output:
                    output.append(columns)
                    while output.size_bytes < max_bytes and output.rows < max_rows:
                        if (columns := next(rows, None)) is None:
                            break
                        output.append(columns)
                    written.append(self._remember(output.finish()))
        except BaseException:
            self.discard(written)
            raise
        return written

    def maintain(self) -> None:
        """Return once old commits are checkpointed and removed; cheap when there is nothing to do."""
        with self._changing:
            self._log.maintain()

    def sweep(self, grace_s: float, now_s: float, pinned: Collection[str] = ()) -> int:
        """Remove files that no version has referred to for the grace period, and return how many."""
        if not self._settled or not self.is_confirmed or self.missing:
            # A commit that looks torn may be a damaged one: an unreferenced file may be the only one left.
            return 0
        with self._changing:
            kept = {file.path for file in self._files} | self._uncommitted | set(pinned)
            found = [path for path in self._storage.paths() if path not in kept]
            since = {path: self._unreferenced_since.get(path, now_s) for path in found}
            ripe = [path for path, seen_s in since.items() if now_s - seen_s >= grace_s][:SWEEP_LIMIT]
            if ripe:
                # After the list was made: what another engine writes from now on is not in it.
                self._storage.require_owner(removes=True)
            for path in ripe:
                self._storage.remove(path)
                del since[path]
            self._unreferenced_since = since
            self.has_unreferenced = bool(since)
            self._storage.remove_empty_folders(self._own_folder)
            return len(ripe)

    def require_ready(self) -> None:
        """Raise if the bucket is known to be unreachable, so that a change would fail."""
        self._storage.require_ready()

    def close(self) -> None:
        """Release what is in memory; nothing on disk changes."""
        self._reader.clear()

    def drop(self) -> None:
        """Return once the table is removed."""
        self.close()
        with self._changing:
            self._storage.require_owner(removes=True)
            self._files = ()
            self._storage.drop()

    def _output(self, base_seq: int) -> Output:
        """Return a new file to write into."""
        # Under the lock, or a sweep might remove the folder as empty.
        with self._changing:
            folder = folder_of(base_seq, None, self._log.partitions)
            self._storage.require_ready()
            self._storage.make(folder)
            return Output(self._storage, folder, base_seq, self._compression)

    @property
    def _own_folder(self) -> str:
        """Return the folder of the files that the engine writes itself."""
        return folder_of(0, None, self._log.partitions)

    def _remember(self, file: DataFile) -> DataFile:
        """Keep a file that waits for its commit from being swept."""
        self._uncommitted.add(file.path)
        return file


def _adopted_file(adopted: Adopted, partitions: Sequence[str]) -> DataFile:
    """Return an adopted file as one of the table's, as its add action describes it."""
    path = f"{folder_of(adopted.base_seq, adopted.copied, partitions)}/{adopted.name}"
    return DataFile.of(path, adopted.base_seq, FileContent.of_adopted(adopted), adopted.copied)


def _changed(
    files: tuple[DataFile, ...], add: Sequence[DataFile], remove: Sequence[DataFile]
) -> tuple[DataFile, ...]:
    """Return the files after a commit, which must neither remove what is not there nor make files overlap."""
    gone = {file.path for file in remove}
    rest = [file for file in files if file.path not in gone]
    if len(files) - len(rest) != len(gone):
        missing = gone - {file.path for file in files}
        raise ConflictError(f"not in the table: {', '.join(sorted(missing))}")
    changed = tuple(sorted([*rest, *add], key=lambda file: file.first_seq))
    for one, two in pairwise(changed):
        if one.overlaps(two):
            raise ConflictError(f"{one.path} and {two.path} hold the same sequences")
    return changed
