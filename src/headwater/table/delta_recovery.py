"""Recovery of a Delta log when it is opened: torn files are moved away, damage is refused.

A newest commit or checkpoint that is incomplete is moved to `torn/`: a power cut explains it, and then the
stream's log still has what it held. Damage looks the same, so nothing is swept while anything is there
until the stream has found all its messages. Any other incomplete commit is damage, and the table is refused.
"""

from __future__ import annotations

import json
from errno import ENOENT
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from headwater.checksum import crc32
from headwater.disk import Disk
from headwater.errors import CorruptionError, DiskError
from headwater.model.sealed import NewerSealError, SealError, seal, unseal
from headwater.table import plain_log, schema
from headwater.table.commit_file import (
    POINTER,
    checkpoint_name,
    checkpoints,
    commit_name,
    problem,
    versions,
)

TORN = "torn"
SUMS = "checkpoint.sums"
REPAIR = "run `headwater store repair`"
SUMS_VERSION = 1


class CheckpointSums(msgspec.Struct, frozen=True):
    """Checksums of what delta-rs writes without one."""

    version: int = -1
    """Of the newest checkpoint."""
    checkpoint: int = 0
    pointer: int = 0
    table: int = 1
    """The format of the table, which a checkpoint names only inside."""


def recover(directory: Path, disk: Disk) -> None:
    """Move torn files away, make the newest commit durable, and refuse a damaged log."""
    commits = directory / "_delta_log"
    sums = _require_known(directory, disk)
    for name in disk.list(commits):
        if name.endswith(".tmp") or "#" in name:
            disk.remove(commits / name)
    found = checkpoints(disk.list(commits))
    if found and not _is_checkpoint(commits, disk, max(found), sums):
        _move_aside(directory, disk, checkpoint_name(max(found)))
        disk.remove(commits / POINTER)
    _recover_pointer(commits, disk, sums)
    _recover_newest(directory, disk)
    check_commits(directory, disk)


def check(directory: Path, disk: Disk) -> None:
    """Refuse a log that is damaged or newer, on a storage whose files are never torn."""
    _require_known(directory, disk)
    check_commits(directory, disk)


def _require_known(directory: Path, disk: Disk) -> CheckpointSums:
    """Return the checksums of the newest checkpoint, unless the table is of a newer format.

    That may have other checksums, and nothing of it may be taken for torn and moved.
    """
    sums = read_sums(directory, disk)
    schema.require_known(directory, {schema.VERSION_KEY: str(sums.table)})
    plain_log.require_known(directory, disk)
    return sums


def read_sums(directory: Path, disk: Disk) -> CheckpointSums:
    """Return the checksums of the newest checkpoint, or empty ones if they are lost."""
    try:
        return unseal(disk.read_all(directory / SUMS), CheckpointSums, SUMS_VERSION)
    except NewerSealError as error:
        raise error.of(f"the checksums {directory / SUMS}") from error
    except SealError:
        return CheckpointSums()
    except DiskError as error:
        if error.errno != ENOENT:
            raise
        return CheckpointSums()


def write_sums(directory: Path, disk: Disk, version: int) -> None:
    """Return once the checksums of this durable checkpoint are durable, too."""
    commits = directory / "_delta_log"
    content, pointer = disk.read_all(commits / checkpoint_name(version)), disk.read_all(commits / POINTER)
    sums = CheckpointSums(version, crc32(content), crc32(pointer), schema.VERSION)
    disk.write_atomic(directory / SUMS, seal(sums, SUMS_VERSION))


def check_commits(directory: Path, disk: Disk) -> None:
    """Raise unless every commit after the newest checkpoint exists and is intact."""
    commits = directory / "_delta_log"
    names = disk.list(commits)
    present, covered = sorted(versions(names)), max(checkpoints(names), default=-1)
    needed = [version for version in present if version > covered]
    for version in needed:
        if why := problem(disk.read_all(commits / commit_name(version))):
            raise CorruptionError(commits / commit_name(version), 0, f"{why}; {REPAIR}")
    if needed and needed != list(range(covered + 1, needed[-1] + 1)):
        raise CorruptionError(
            commits, 0, f"a commit between {covered + 1} and {needed[-1]} is missing; {REPAIR}"
        )


def _recover_newest(directory: Path, disk: Disk) -> None:
    """Make the newest commit durable, or move it away if it is torn."""
    commits = directory / "_delta_log"
    names = disk.list(commits)
    if not versions(names):
        return
    newest = commits / commit_name(max(versions(names)))
    content = disk.read_all(newest)
    if not problem(content):
        _make_durable(newest, content, disk)
    elif max(versions(names)) in checkpoints(names):
        raise CorruptionError(newest, 0, f"a commit that a checkpoint covers is torn; {REPAIR}")
    else:
        _move_aside(directory, disk, newest.name)


def _make_durable(path: Path, content: bytes, disk: Disk) -> None:
    """Return once a complete file is durable; it is written again only if necessary.

    A process that died between commit and sync leaves a commit that is visible but maybe not durable. After
    a failed sync that the process did not survive, the next one may succeed without writing anything.
    """
    try:
        disk.sync_file(path)
        disk.sync_dir(path.parent)
        disk.uncache(path)
        is_durable = disk.read_all(path) == content
    except DiskError:
        is_durable = False
    if not is_durable:
        disk.write_atomic(path, content)


def _is_checkpoint(commits: Path, disk: Disk, version: int, sums: CheckpointSums) -> bool:
    """Return whether a checkpoint is intact, or without a checksum whether all of it can be read."""
    path = commits / checkpoint_name(version)
    if sums.version == version:
        return crc32(disk.read_all(path)) == sums.checkpoint
    try:
        pq.read_table(path)
    except (pa.ArrowException, OSError, ValueError):
        return False
    return True


def _recover_pointer(commits: Path, disk: Disk, sums: CheckpointSums) -> None:
    """Remove the pointer to the newest checkpoint when it is torn or points at none; readers then list."""
    names = disk.list(commits)
    if POINTER not in names:
        return
    content = disk.read_all(commits / POINTER)
    try:
        whole = json.loads(content)["version"] in checkpoints(names)
    except (ValueError, KeyError, TypeError):
        whole = False
    if sums.version in checkpoints(names) and crc32(content) != sums.pointer:
        whole = False
    if not whole:
        disk.remove(commits / POINTER)


def _move_aside(directory: Path, disk: Disk, name: str) -> None:
    """Move a torn file out of the log, where no reader looks."""
    torn = directory / TORN
    disk.mkdir(torn)
    disk.rename(directory / "_delta_log" / name, torn / f"{name}.{len(disk.list(torn))}")
    disk.sync_dir(torn)
    disk.sync_dir(directory / "_delta_log")


def has_log(directory: Path, disk: Disk) -> bool:
    """Return whether the table has a Delta log, or had one whose newest files are torn."""
    if "_delta_log" not in disk.list(directory):
        return False
    names = disk.list(directory / "_delta_log")
    return bool(versions(names) or checkpoints(names)) or has_torn(directory, disk)


def has_torn(directory: Path, disk: Disk) -> bool:
    """Return whether any file was moved aside as torn; it may be damaged instead."""
    return TORN in disk.list(directory) and bool(disk.list(directory / TORN))
