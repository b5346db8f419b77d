"""The Delta log of one table: durable commits, checkpoints, and repair after a crash."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from headwater.disk import Disk
from headwater.errors import CorruptionError, DiskError, Error
from headwater.table import delta_recovery, plain_log, schema
from headwater.table.commit_file import (
    ACTIONS,
    CHECKSUM,
    COMMIT_ID,
    POINTER,
    as_transactions,
    as_written,
    checkpoint_name,
    checkpoints,
    checksum,
    commit_name,
    versions,
)
from headwater.table.datafile import DataFile
from headwater.table.plain_log import LogState
from headwater.table.table_snapshot import TableSnapshot
from headwater.table.table_storage import LocalTableStorage, TableStorage

# Checkpoints and clean-up are ours, in `maintain`: they must be synced, and before anything is removed.
_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


class ConflictError(Error):
    """The table changed since a change was planned: a file is missing, or another writer committed first."""


_EPOCH = "headwater.epoch"


class _OpenedLog(NamedTuple):
    """What opening found in a table."""

    version: int
    partitions: Sequence[str]
    files: Sequence[DataFile]
    transactions: Mapping[str, int]
    """All there are; without any, delta-rs is asked for each."""
    delta: DeltaTable | None = None
    checkpoint: int = 0
    """The version of the newest checkpoint; one that is not known costs one more."""


class DeltaLog:
    """The commits of a table; one thread at a time uses it."""

    def __init__(self, storage: TableStorage, found: _OpenedLog) -> None:
        self._storage = storage
        self._directory = storage.directory
        self._commits = storage.directory / "_delta_log"
        self._disk = storage.disk
        self._delta = found.delta
        """The table as delta-rs knows it; None until it is needed."""
        self._files = found.files
        self._version = found.version
        self.records_sources = schema.SOURCE in found.partitions
        """Whether a file can be one of a source's origin; tables of earlier versions do not record that."""
        self._transactions: dict[str, int | None] = dict(found.transactions)
        """The last number of each name that was looked up; None if there is none."""
        self._checkpoint_version = found.checkpoint
        """The version of the newest checkpoint."""
        self._broken = False
        """Whether it must be opened again: another writer committed, or a commit has an unknown outcome."""
        self.epoch = 0
        """Of the engine that commits; each commit carries it."""

    @classmethod
    def open(cls, directory: Path, disk: Disk, name: str = "", records_sources: bool = True) -> DeltaLog:
        """Return the log of a directory, created if it is missing; its newest commit is durable."""
        return cls.open_on(LocalTableStorage(directory, disk), name, records_sources)

    @classmethod
    def open_on(cls, storage: TableStorage, name: str = "", records_sources: bool = True) -> DeltaLog:
        """Return the log of the table on this storage, created if it is missing."""
        directory, disk = storage.directory, storage.disk
        commits = directory / "_delta_log"
        disk.mkdir(commits)
        if storage.is_atomic:
            delta_recovery.check(directory, disk)
        else:
            delta_recovery.recover(directory, disk)
        names = disk.list(commits)
        if not versions(names) and not checkpoints(names):
            columns = schema.TABLE if records_sources else schema.TABLE_1
            partitions = schema.PARTITIONS if records_sources else (schema.PARTITION,)
            plain_log.create(directory, disk, name, columns, partitions)
        known = plain_log.read(directory, disk)
        found = _read_by_delta(storage) if known is None else _read(*known)
        return cls(storage, found._replace(checkpoint=max(checkpoints(disk.list(commits)), default=0)))

    @classmethod
    def of_snapshot(cls, storage: TableStorage, snapshot: TableSnapshot) -> DeltaLog:
        """Return the log as it was when the snapshot was taken; nothing is read.

        A commit is refused if it is not the newest version any more.
        """
        known = snapshot.version, snapshot.partitions, snapshot.files, snapshot.transactions
        return cls(storage, _OpenedLog(*known))

    def snapshot(self, files: Sequence[DataFile], apps: Sequence[str]) -> TableSnapshot:
        """Return the newest version with these files, and with what was committed under these names."""
        numbers = {app: self.transaction(app) for app in apps}
        transactions = {app: number for app, number in numbers.items() if number is not None}
        return TableSnapshot(
            version=self._version, partitions=self.partitions, files=tuple(files), transactions=transactions
        )

    @property
    def partitions(self) -> tuple[str, ...]:
        """Return the columns that have one value per file."""
        return schema.PARTITIONS if self.records_sources else (schema.PARTITION,)

    @property
    def version(self) -> int:
        """Return the number of the newest commit."""
        return self._version

    def transaction(self, app: str) -> int | None:
        """Return the number last committed under this name."""
        if app not in self._transactions and self._delta is not None:
            with self._refused(self._commits, "read"):
                # A commit on another thread may have set it meanwhile: its number is the newer one.
                self._transactions.setdefault(app, self._delta.transaction_version(app))
        return self._transactions.get(app)

    def take_files(self) -> list[DataFile]:
        """Return, once, the files of the version that was opened, ascending by first sequence."""
        files, self._files = self._files, ()
        return list(files)

    def commit(
        self, add: Sequence[DataFile], remove: Sequence[DataFile], transactions: Mapping[str, int]
    ) -> None:
        """Return once all of it is one durable commit; on an error none of it is."""
        if self._broken:
            raise ConflictError(f"{self._directory} must be opened again: a commit could not be undone")
        self._storage.require_ready()
        self._loaded()  # where that fails, there is nothing to take back
        commit_id = uuid.uuid4().hex
        path = self._commits / commit_name(self._version + 1)
        try:
            actions = [*self._removals(remove, add), *self._additions(add, remove)]
            self._write(commit_id, actions, transactions)
            self._disk.sync_file(path)
            self._disk.sync_dir(self._commits)
        except (DeltaError, OSError, DiskError) as error:
            if not self._is_done(path, commit_id):
                raise self._failure(path, error) from error
        self._version += 1
        self._transactions.update(transactions)

    def maintain(self) -> None:
        """Return once at most two checkpoints, and the commits after the older one, are left."""
        if self._version - self._checkpoint_version < schema.CHECKPOINT_COMMITS or self._broken:
            return
        self._storage.require_owner(removes=True)
        delta = self._loaded()
        with self._refused(self._commits / checkpoint_name(self._version), "write"):
            delta.update_incremental()
            delta.create_checkpoint()
        self._disk.sync_file(self._commits / checkpoint_name(self._version))
        self._disk.sync_file(self._commits / POINTER)
        self._disk.sync_dir(self._commits)
        delta_recovery.write_sums(self._directory, self._disk, self._version)
        self._checkpoint_version = self._version
        self._remove_covered()
        # delta-rs walks every commit since it was opened at each further commit.
        with self._refused(self._commits, "read"):
            self._delta = _newest(self._storage)

    def _write(self, commit_id: str, actions: Sequence[Any], transactions: Mapping[str, int]) -> None:
        """Write the next commit, if and only if no other writer did."""
        delta = self._loaded()
        if delta.version() != self._version:
            delta.update_incremental()
        self._require_newest(delta)
        said = [*map(as_written, actions), *as_transactions(transactions)]
        metadata = {COMMIT_ID: commit_id, ACTIONS: str(len(said)), CHECKSUM: checksum(said)}
        delta.create_write_transaction(
            list(actions),
            "append",
            schema.TABLE if self.records_sources else schema.TABLE_1,
            list(self.partitions),
            commit_properties=CommitProperties(
                custom_metadata={_EPOCH: str(self.epoch), **metadata},
                max_commit_retries=0,
                app_transactions=[Transaction(app, number) for app, number in transactions.items()],
            ),
            post_commithook_properties=_NO_HOOKS,
        )

    def _loaded(self) -> DeltaTable:
        """Return the table as delta-rs knows it, which must be what was read before."""
        if self._delta is None:
            with self._refused(self._commits, "read"):
                delta = _newest(self._storage)
            self._require_newest(delta)
            self._delta = delta
        return self._delta

    def _require_newest(self, delta: DeltaTable) -> None:
        """Raise if another writer has committed since: delta-rs would put our commit behind its."""
        if delta.version() != self._version:
            self._broken = True
            raise ConflictError(
                f"{self._directory} is at version {delta.version()}, not at {self._version}: "
                "another writer has committed to it"
            )

    def _values(self, file: DataFile) -> dict[str, str | None]:
        assert file.copied is None or self.records_sources
        values = schema.partition_values(file.base_seq, file.copied)
        return {name: values[name] for name in self.partitions}

    def _additions(self, add: Sequence[DataFile], remove: Sequence[DataFile]) -> list[AddAction]:
        """Return the add actions; rows that only move out of removed files are no change of data."""
        now_ms = time.time_ns() // 1_000_000
        return [
            AddAction(
                path=file.path,
                size=file.size_bytes,
                partition_values=self._values(file),
                modification_time=now_ms,
                data_change=not any(file.overlaps(old) for old in remove),
                stats=schema.stats_json(file),
            )
            for file in add
        ]

    def _removals(self, remove: Sequence[DataFile], add: Sequence[DataFile]) -> list[RemoveAction]:
        """Return the remove actions; a file whose rows only move is no change of data."""
        now_ms = time.time_ns() // 1_000_000
        return [
            RemoveAction(
                path=file.path,
                data_change=not any(file.overlaps(new) for new in add),
                deletion_timestamp=now_ms,
                size=file.size_bytes,
                partition_values=self._values(file),
            )
            for file in remove
        ]

    def _is_done(self, path: Path, commit_id: str) -> bool:
        """Return whether a commit that was reported as failed is durable; otherwise it is rolled back.

        A log that cannot be brought to one or the other is broken, and must be opened again.
        """
        self._broken = True
        try:
            is_there = path.name in self._disk.list(self._commits)
            is_ours = is_there and _is_commit(self._disk.read_all(path), commit_id)
            if is_ours and self._storage.is_atomic:
                # Readers may have seen it, and nothing can tear it.
                self._delta, self._broken = None, False
                return True
            if is_ours:
                self._disk.remove(path)
                self._disk.sync_dir(self._commits)
            self._delta = _newest(self._storage)
            self._broken = self._delta.version() != self._version
        except (DeltaError, OSError, DiskError):
            pass
        return False

    def _failure(self, path: Path, error: Exception) -> Error:
        """Return the error of a commit that was not made."""
        if isinstance(error, DiskError):
            return error
        if self._broken:
            return ConflictError(f"{path} cannot be committed: {error}")
        return self._storage.refusal(path, "commit", error)

    @contextmanager
    def _refused(self, path: Path, operation: str) -> Iterator[None]:
        """Run a block in which an error of delta-rs is an error of the storage, which may be temporary."""
        try:
            yield
        except (DeltaError, OSError) as error:
            raise self._storage.refusal(path, operation, error) from error

    def _remove_covered(self) -> None:
        """Remove what is older than the last checkpoint but one, which a slow reader may yet need."""
        names = self._disk.list(self._commits)
        found = sorted(checkpoints(names))
        if len(found) < 2:
            return
        for name in names:
            if name[:20].isdigit() and int(name[:20]) < found[-2]:
                self._disk.remove(self._commits / name)


def _read(state: LogState, files: list[DataFile]) -> _OpenedLog:
    """Return the state that the commits describe."""
    return _OpenedLog(state.version, state.partitions, files, state.transactions)


def _read_by_delta(storage: TableStorage) -> _OpenedLog:
    """Return the state of a table as delta-rs reads it."""
    delta = _loaded(storage)
    _require_ours(storage.directory, delta)
    try:
        files = schema.data_files(pa.table(delta.get_add_actions(flatten=True)))
    except (DeltaError, OSError) as error:
        raise storage.refusal(storage.directory / "_delta_log", "read", error) from error
    return _OpenedLog(delta.version(), delta.metadata().partition_columns, files, {}, delta)


def _is_commit(content: bytes, commit_id: str) -> bool:
    """Return whether these bytes are the commit with this id."""
    return commit_id.encode() in content


def _newest(storage: TableStorage) -> DeltaTable:
    """Return the table as delta-rs reads it now."""
    return DeltaTable(storage.delta_address, storage_options=storage.delta_options() or None)


def _loaded(storage: TableStorage) -> DeltaTable:
    """Return the table as delta-rs reads it."""
    try:
        return _newest(storage)
    except (DeltaError, OSError, ValueError) as error:
        if storage.is_atomic:
            # The commits were read and checked before: what fails now is the way to them.
            raise storage.refusal(storage.directory / "_delta_log", "read", error) from error
        what = f"the table cannot be read: {error}; {delta_recovery.REPAIR}"
        raise CorruptionError(storage.directory / "_delta_log", 0, what) from error


def _require_ours(directory: Path, delta: DeltaTable) -> None:
    """Raise unless the table has the columns and partitions that ours have."""
    fields = pa.schema(delta.schema().to_arrow())
    found = [(field.name, str(field.type)) for field in fields]
    schema.require_known(directory, delta.metadata().configuration)
    partitions = tuple(delta.metadata().partition_columns)
    expected = schema.TABLE if partitions == schema.PARTITIONS else schema.TABLE_1
    if partitions not in (schema.PARTITIONS, (schema.PARTITION,)) or found != _columns(expected):
        what = f"the table's columns are not those that were written; {delta_recovery.REPAIR}"
        raise CorruptionError(directory / "_delta_log", 0, what)


def _columns(expected: pa.Schema) -> list[tuple[str, str]]:
    return [(field.name, str(field.type)) for field in expected]
