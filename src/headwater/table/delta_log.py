"""The Delta log of one table: durable commits, checkpoints, and mending after a crash."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from errno import EIO
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from headwater.disk import Disk
from headwater.errors import CorruptionError, DiskError, Error
from headwater.table import mending, plain_log, schema
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

# Checkpoints and clean-up are ours, in `maintain`: they must be synced, and before anything is removed.
_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


class ConflictError(Error):
    """The table is not what a change was made for: a file is gone, or another writer came first."""


_EPOCH = "headwater.epoch"


class _OpenedLog(NamedTuple):
    """What opening has found a table to be."""

    version: int
    partitions: Sequence[str]
    files: Sequence[DataFile]
    transactions: Mapping[str, int]
    """All there are; without any, delta-rs is asked for each."""
    delta: DeltaTable | None = None


class DeltaLog:
    """The commits of a table; one thread at a time uses it."""

    def __init__(self, directory: Path, disk: Disk, found: _OpenedLog) -> None:
        self._directory = directory
        self._commits = directory / "_delta_log"
        self._disk = disk
        self._delta = found.delta
        """The table as delta-rs knows it; None until it is needed."""
        self._files = found.files
        self._version = found.version
        self.tells_sources = schema.SOURCE in found.partitions
        """Whether a file can be one of a source's origin; tables of earlier versions cannot tell that."""
        self._transactions: dict[str, int | None] = dict(found.transactions)
        self._checkpoint_version = max(checkpoints(disk.list(self._commits)), default=0)
        self._broken = False
        self.epoch = 0
        """Of the engine that commits; each commit carries it."""

    @classmethod
    def open(cls, directory: Path, disk: Disk, name: str = "", tells_sources: bool = True) -> DeltaLog:
        """Return the log, made if it was missing; its newest commit is whole and durable."""
        commits = directory / "_delta_log"
        disk.mkdir(commits)
        mending.mend(directory, disk)
        names = disk.list(commits)
        if not versions(names) and not checkpoints(names):
            columns = schema.TABLE if tells_sources else schema.TABLE_1
            partitions = schema.PARTITIONS if tells_sources else (schema.PARTITION,)
            plain_log.create(directory, disk, name, columns, partitions)
        known = plain_log.read(directory, disk)
        return cls(directory, disk, _told(directory) if known is None else _read(*known))

    @property
    def partitions(self) -> tuple[str, ...]:
        """Return the columns whose values are the same in all of a file."""
        return schema.PARTITIONS if self.tells_sources else (schema.PARTITION,)

    @property
    def version(self) -> int:
        """Return the number of the newest commit."""
        return self._version

    def transaction(self, app: str) -> int | None:
        """Return the number last committed under this name."""
        if app not in self._transactions and self._delta is not None:
            with _refused_by_disk(self._commits, "read"):
                self._transactions[app] = self._delta.transaction_version(app)
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
            raise ConflictError(f"{self._directory} must be opened anew: a commit could not be taken back")
        self._loaded()  # where that fails, there is nothing to take back
        commit_id = uuid.uuid4().hex
        path = self._commits / commit_name(self._version + 1)
        try:
            actions = [*self._removals(remove, add), *self._additions(add, remove)]
            self._write(commit_id, actions, transactions)
            self._disk.sync_file(path)
            self._disk.sync_dir(self._commits)
        except (DeltaError, OSError, DiskError) as error:
            self._take_back(path, commit_id)
            if isinstance(error, DiskError):
                raise
            if self._broken:
                raise ConflictError(f"{path} cannot be committed: {error}") from error
            raise DiskError(path, "commit", getattr(error, "errno", None) or EIO) from error
        self._version += 1
        self._transactions.update(transactions)

    def maintain(self) -> None:
        """Return once at most two checkpoints, and the commits after the older one, are left."""
        if self._version - self._checkpoint_version < schema.CHECKPOINT_COMMITS or self._broken:
            return
        delta = self._loaded()
        with _refused_by_disk(self._commits / checkpoint_name(self._version), "write"):
            delta.update_incremental()
            delta.create_checkpoint()
        self._disk.sync_file(self._commits / checkpoint_name(self._version))
        self._disk.sync_file(self._commits / POINTER)
        self._disk.sync_dir(self._commits)
        mending.write_sums(self._directory, self._disk, self._version)
        self._checkpoint_version = self._version
        self._remove_covered()
        # delta-rs walks every commit since it was opened at each further commit.
        with _refused_by_disk(self._commits, "read"):
            self._delta = DeltaTable(self._directory)

    def _write(self, commit_id: str, actions: Sequence[Any], transactions: Mapping[str, int]) -> None:
        """Write the next commit, if and only if nobody else did."""
        delta = self._loaded()
        if delta.version() != self._version:
            delta.update_incremental()
        said = [*map(as_written, actions), *as_transactions(transactions)]
        metadata = {COMMIT_ID: commit_id, ACTIONS: str(len(said)), CHECKSUM: checksum(said)}
        delta.create_write_transaction(
            list(actions),
            "append",
            schema.TABLE if self.tells_sources else schema.TABLE_1,
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
            with _refused_by_disk(self._commits, "read"):
                delta = DeltaTable(self._directory)
            if delta.version() != self._version:
                self._broken = True
                raise ConflictError(
                    f"{self._directory} is at version {delta.version()}, not at {self._version}: "
                    "somebody else has committed to it"
                )
            self._delta = delta
        return self._delta

    def _values(self, file: DataFile) -> dict[str, str | None]:
        assert file.copied is None or self.tells_sources
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

    def _take_back(self, path: Path, commit_id: str) -> None:
        """Remove a commit of ours that could not be made durable, or refuse to go on."""
        self._broken = True
        try:
            if path.name in self._disk.list(self._commits) and _is_commit(
                self._disk.read_all(path), commit_id
            ):
                self._disk.remove(path)
                self._disk.sync_dir(self._commits)
            self._delta = DeltaTable(self._directory)
            self._broken = self._delta.version() != self._version
        except (DeltaError, OSError, DiskError):
            return

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
    """Return what the commits themselves say."""
    return _OpenedLog(state.version, state.partitions, files, state.transactions)


def _told(directory: Path) -> _OpenedLog:
    """Return what delta-rs says of a table."""
    delta = _loaded(directory)
    _require_ours(directory, delta)
    with _refused_by_disk(directory / "_delta_log", "read"):
        files = schema.data_files(pa.table(delta.get_add_actions(flatten=True)))
    return _OpenedLog(delta.version(), delta.metadata().partition_columns, files, {}, delta)


def _is_commit(content: bytes, commit_id: str) -> bool:
    """Return whether these bytes are the commit with this id."""
    return commit_id.encode() in content


@contextmanager
def _refused_by_disk(path: Path, operation: str) -> Iterator[None]:
    """Run a span in which an error of delta-rs is one of the disk, which may heal."""
    try:
        yield
    except (DeltaError, OSError) as error:
        raise DiskError(path, operation, getattr(error, "errno", None) or EIO) from error


def _loaded(directory: Path) -> DeltaTable:
    """Return the table as delta-rs reads it."""
    try:
        return DeltaTable(directory)
    except (DeltaError, OSError, ValueError) as error:
        what = f"the table cannot be read: {error}; {mending.REPAIR}"
        raise CorruptionError(directory / "_delta_log", 0, what) from error


def _require_ours(directory: Path, delta: DeltaTable) -> None:
    """Raise unless the table has the columns and partitions that ours have."""
    fields = pa.schema(delta.schema().to_arrow())
    found = [(field.name, str(field.type)) for field in fields]
    schema.require_known(directory, delta.metadata().configuration)
    partitions = tuple(delta.metadata().partition_columns)
    expected = schema.TABLE if partitions == schema.PARTITIONS else schema.TABLE_1
    if partitions not in (schema.PARTITIONS, (schema.PARTITION,)) or found != _columns(expected):
        what = f"the table's columns are not those that were written; {mending.REPAIR}"
        raise CorruptionError(directory / "_delta_log", 0, what)


def _columns(expected: pa.Schema) -> list[tuple[str, str]]:
    return [(field.name, str(field.type)) for field in expected]
