"""A Delta log without delta-rs: its first commit, and the state that its commits and checkpoint describe.

delta-rs needs milliseconds and memory to load a table, however small. Most tables of a store with many
streams are small and idle, and are read here in a fraction of that. Whatever this module does not know
is left to delta-rs: then there is no state.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.disk import Disk
from headwater.model.copied import Copied
from headwater.table import schema
from headwater.table.commit_file import (
    ACTIONS,
    CHECKSUM,
    checkpoint_name,
    checkpoints,
    checksum,
    commit_name,
    problem,
    versions,
)
from headwater.table.datafile import DataFile, FileContent

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TYPES = {
    pa.int64(): "long",
    pa.int16(): "short",
    pa.string(): "string",
    pa.binary(): "binary",
    schema.TIME: "timestamp",
}
_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
_CHECKPOINT_COLUMNS = (
    "protocol",
    "metaData",
    *(f"txn.{name}" for name in ("appId", "version")),
    *(f"add.{name}" for name in ("path", "size", "stats", "partitionValues", "deletionVector.storageType")),
    *("domainMetadata.domain", "sidecar.path", "checkpointMetadata.version"),
)
"""The columns that are read from a checkpoint; removed files are not needed."""
_CHECKPOINT_KINDS = {name.partition(".")[0] for name in _CHECKPOINT_COLUMNS} | {"remove"}
_MAPS = ("partitionValues", "configuration", "options")


class _UnknownError(Exception):
    """A commit contains something that only delta-rs can read."""


@dataclass
class LogState:
    """The state that the commits of a table describe."""

    version: int
    partitions: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)
    adds: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def take(self, action: Mapping[str, Any]) -> None:
        """Apply the next action."""
        ((kind, said),) = action.items()
        if kind == "add":
            self._add(said)
        elif kind == "remove":
            self.adds.pop(said["path"], None)
        elif kind == "txn":
            self.transactions[said["appId"]] = int(said["version"])
        elif kind == "metaData":
            self.properties = said.get("configuration") or {}
            self.partitions = _partitions_of(said)
        elif kind == "protocol":
            if said != _PROTOCOL:
                raise _UnknownError(kind)
        elif kind != "commitInfo":
            raise _UnknownError(kind)

    def _add(self, said: Mapping[str, Any]) -> None:
        # A path may hold escapes, and a deletion vector takes rows out of a file.
        if "%" in said["path"] or said.get("deletionVector"):
            raise _UnknownError("add")
        self.adds[said["path"]] = said

    def files(self) -> list[DataFile]:
        """Return the files of the table, ascending by first sequence."""
        return sorted(map(_file_of, self.adds.values()), key=lambda file: file.first_seq)


def read(directory: Path, disk: Disk) -> tuple[LogState, list[DataFile]] | None:
    """Return the state and the files of a repaired log; None if only delta-rs can read it."""
    commits = directory / "_delta_log"
    names = disk.list(commits)
    covered = max(checkpoints(names), default=-1)
    later = sorted(version for version in versions(names) if version > covered)
    state = LogState(max([covered, *later]))
    if state.version < 0 or later != list(range(covered + 1, state.version + 1)):
        return None
    try:
        if covered >= 0:
            for action in _actions_of(disk.read_all(commits / checkpoint_name(covered))):
                state.take(action)
        for version in later:
            for line in disk.read_all(commits / commit_name(version)).splitlines():
                state.take(json.loads(line))
        if not state.partitions:
            return None
        schema.require_known(directory, state.properties)
        return state, state.files()
    except (_UnknownError, pa.ArrowException, ValueError, KeyError, TypeError, AttributeError):
        return None


def _actions_of(checkpoint: bytes) -> Iterator[dict[str, Any]]:
    """Yield the actions of a checkpoint as its commits would hold them, without those of removed files."""
    file = pq.ParquetFile(pa.BufferReader(checkpoint), pre_buffer=False)
    if not _CHECKPOINT_KINDS.issuperset(file.schema_arrow.names):
        raise _UnknownError("checkpoint")
    table = file.read(columns=list(_CHECKPOINT_COLUMNS), use_threads=False)
    for kind in table.column_names:
        for said in table[kind].drop_null().to_pylist():
            yield {kind: _without_nulls(said)}


def _without_nulls(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return an action without nulls; Parquet names every field and stores maps as pairs."""
    return {
        name: dict(value) if name in _MAPS else value for name, value in said.items() if value is not None
    }


def require_known(directory: Path, disk: Disk) -> None:
    """Raise if the first commit, while it is there and whole, names a newer format; nothing is changed."""
    first = directory / "_delta_log" / commit_name(0)
    content = disk.read_all(first) if first.name in disk.list(first.parent) else b""
    if problem(content):
        return
    for line in content.splitlines():
        if metadata := json.loads(line).get("metaData"):
            schema.require_known(directory, metadata.get("configuration") or {})


def create(directory: Path, disk: Disk, name: str, columns: pa.Schema, partitions: Sequence[str]) -> None:
    """Return once the first commit, of a table without files, is durable."""
    now_ms = time.time_ns() // 1_000_000
    metadata = {
        "id": str(uuid.uuid4()),
        "name": name or None,
        "description": None,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": _as_json({"type": "struct", "fields": list(_fields_of(columns))}),
        "partitionColumns": list(partitions),
        "createdTime": now_ms,
        "configuration": schema.configuration(partitions),
    }
    actions = ({"protocol": _PROTOCOL}, {"metaData": metadata})
    info = {"timestamp": now_ms, "operation": "CREATE TABLE", "operationParameters": {}}
    sums = {ACTIONS: str(len(actions)), CHECKSUM: checksum(actions)}
    lines = [{"commitInfo": info | sums}, *actions]
    content = "".join(_as_json(line) + "\n" for line in lines)
    disk.write_atomic(directory / "_delta_log" / commit_name(0), content.encode())


def _as_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _fields_of(columns: Iterable[pa.Field]) -> Iterable[dict[str, Any]]:
    """Yield the columns as the metadata of a table names them."""
    for column in columns:
        kind = _TYPES[column.type]
        yield {"name": column.name, "type": kind, "nullable": column.nullable, "metadata": {}}


def _partitions_of(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the partition columns of a table of ours."""
    partitions = tuple(metadata["partitionColumns"])
    expected = schema.TABLE if partitions == schema.PARTITIONS else schema.TABLE_1
    found = [(column["name"], column["type"]) for column in json.loads(metadata["schemaString"])["fields"]]
    ours = [(column["name"], column["type"]) for column in _fields_of(expected)]
    if partitions not in (schema.PARTITIONS, (schema.PARTITION,)) or found != ours:
        raise _UnknownError("metaData")
    return partitions


def _file_of(said: Mapping[str, Any]) -> DataFile:
    """Return the file that an add action names."""
    stats, values = json.loads(said["stats"]), said["partitionValues"]
    least, most, base = stats["minValues"], stats["maxValues"], int(values[schema.PARTITION])
    content = FileContent(
        int(stats["numRecords"]),
        int(least["offset"]),
        int(most["offset"]),
        _micros(least["time"]) * 1000,
        _micros(most["time"]) * 1000,
        least.get("subject"),
        most.get("subject"),
        stats["nullCount"].get("headers"),
        int(said["size"]),
    )
    copied = None
    if values.get(schema.SOURCE):
        source, source_id, source_base, micros = (values[name] for name in schema.PARTITIONS[1:])
        copied = Copied(source, source_id, int(source_base), int(micros), 0, 0, 0)
    return DataFile.of(said["path"], base, content, copied)


def _micros(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND
