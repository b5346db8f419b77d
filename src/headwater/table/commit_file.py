"""The files of a Delta log: their names, and whether what they hold is what was committed.

delta-rs writes a commit without a checksum. So the metadata of each commit of ours names how many actions
it has, and a checksum over what they say. A commit of version 0.1.0 has no checksum, and is only checked
for its form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deltalake.transaction import AddAction, RemoveAction

from headwater.checksum import crc32

COMMIT_ID = "headwater.commit"
ACTIONS = "headwater.actions"
CHECKSUM = "headwater.crc32"
POINTER = "_last_checkpoint"
_FIELDS = {
    "add": ("path", "partitionValues", "size", "modificationTime", "dataChange", "stats"),
    "remove": ("path", "partitionValues", "size", "deletionTimestamp", "dataChange"),
    "txn": ("appId", "version"),
    "protocol": ("minReaderVersion", "minWriterVersion"),
    "metaData": (
        "id",
        "name",
        "description",
        "format",
        "schemaString",
        "partitionColumns",
        "createdTime",
        "configuration",
    ),
}
"""What our own actions say; the rest of what delta-rs writes is null or means nothing to a reader."""

Action = Mapping[str, Any]


def checksum(actions: Sequence[Action]) -> str:
    """Return the checksum over the actions of a commit, whatever their order."""
    said = sorted(
        json.dumps([kind, [action[kind].get(name) for name in names]], sort_keys=True)
        for action in actions
        for kind, names in _FIELDS.items()
        if kind in action
    )
    return f"{crc32(json.dumps(said).encode()):08x}"


def as_written(action: AddAction | RemoveAction) -> Action:
    """Return an action as the commit will hold it."""
    said: dict[str, Any] = {
        "path": action.path,
        "partitionValues": dict(action.partition_values or {}),
        "size": action.size,
        "dataChange": action.data_change,
    }
    if isinstance(action, AddAction):
        return {"add": said | {"modificationTime": action.modification_time, "stats": action.stats}}
    return {"remove": said | {"deletionTimestamp": action.deletion_timestamp}}


def as_transactions(transactions: Mapping[str, int]) -> list[Action]:
    """Return application transactions as the commit will hold them."""
    return [{"txn": {"appId": app, "version": number}} for app, number in transactions.items()]


def problem(content: bytes) -> str:
    """Return why this is not the commit that was written, nothing if it is."""
    try:
        actions: list[Action] = [json.loads(line) for line in content.splitlines()]
        promised: Action = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
        count = len(actions) - 1
        if count < 0 or int(promised.get(ACTIONS, count)) != count:
            return "it does not hold as many actions as were committed"
        if CHECKSUM in promised and promised[CHECKSUM] != checksum(actions):
            return "its checksum does not match"
    except (ValueError, TypeError, AttributeError, KeyError):
        return "it cannot be decoded"
    return ""


def versions(names: Sequence[str]) -> list[int]:
    """Return the versions that have a commit file."""
    return [int(name[:20]) for name in names if name[:20].isdigit() and name[20:] == ".json"]


def checkpoints(names: Sequence[str]) -> list[int]:
    """Return the versions that have a checkpoint."""
    return [int(name[:20]) for name in names if name[:20].isdigit() and name[20:] == ".checkpoint.parquet"]


def commit_name(version: int) -> str:
    """Return the name of a commit's file."""
    return f"{version:020}.json"


def checkpoint_name(version: int) -> str:
    """Return the name of a checkpoint's file."""
    return f"{version:020}.checkpoint.parquet"
