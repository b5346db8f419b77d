"""Opens the SQLite files of a store in a mode that is safe on their file system.

In WAL mode SQLite keeps an index of the log in memory that processes share through a file, `-shm`. That does
not work on a network file system, and the file cannot be created on a full disk. There the database is opened
exclusively: the index is in this process's own memory, and no other process can open the database meanwhile.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from pathlib import Path
from typing import Protocol

from headwater.control.wal_file import WalState, state_of, wal_path
from headwater.disk import RealDisk
from headwater.errors import DiskError

BUSY_TIMEOUT_S = 5.0
DISK = RealDisk()
_MOUNTS = Path("/proc/self/mountinfo")
_LOCKS = Path("/proc/locks")
_NETWORK = (
    "nfs",
    "cifs",
    "smb",
    "9p",
    "ceph",
    "fuse",
    "gluster",
    "lustre",
    "gpfs",
    "ocfs2",
    "gfs2",
    "afs",
    "beegfs",
)


logger = logging.getLogger(__name__)


class Replica(Protocol):
    """A copy of a SQLite file outside this machine, changed with every transaction."""

    def ship(self, db: sqlite3.Connection) -> None:
        """Return once the copy durably has the open transaction, which is committed next."""
        ...

    def undo(self) -> None:
        """Have the copy forget the last transaction, because it could not be committed."""
        ...


class NoReplica:
    """The copy of a file that has none."""

    def ship(self, db: sqlite3.Connection) -> None:
        """Do nothing."""

    def undo(self) -> None:
        """Do nothing."""


NO_REPLICA = NoReplica()


def open_database(path: Path) -> sqlite3.Connection:
    """Return a connection that any thread may use, and whose commits are durable.

    A damaged write-ahead log is refused: SQLite would ignore later transactions without an error.
    """
    match state_of(path):
        case WalState.DAMAGED as state:
            raise sqlite3.DatabaseError(f"{wal_path(path)}: {state}")
        case WalState.TORN as state:
            logger.warning("%s: %s; that transaction is ignored", wal_path(path), state)
    _write_again(path)
    for alone in (True,) if on_network(path) else (False, True):
        db = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        try:
            if alone:
                db.execute("PRAGMA locking_mode=EXCLUSIVE")
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
            db.execute("PRAGMA foreign_keys=ON")
            db.execute("PRAGMA user_version").fetchone()
            return db
        except sqlite3.OperationalError as error:
            db.close()
            if alone or "locked" in str(error):
                raise
        except sqlite3.Error:
            db.close()
            raise
    raise AssertionError("one of both attempts returns or raises")


def _write_again(path: Path) -> None:
    """Write the write-ahead log that a killed process left to the disk again, as a new file.

    After a failed sync the kernel may hold bytes that are not on the disk, and no later sync writes them. If
    the process is killed then, SQLite finds a transaction there and continues behind it. A power cut would
    leave a hole, and hide every later transaction.
    """
    wal = wal_path(path)
    if not wal.exists() or not wal.stat().st_size or _is_open(path):
        return
    try:
        DISK.write_atomic(wal, wal.read_bytes())
    except DiskError as error:
        if not error.full:
            raise
        logger.warning("cannot write %s again: %s", wal, error)


def _is_open(path: Path) -> bool:
    """Return whether a process of this machine has a SQLite file open: an owner that was replaced may."""
    try:
        held = [line.split() for line in _LOCKS.read_text().splitlines()]
    except OSError:
        return False
    return any(fields[-3].endswith(f":{path.stat().st_ino}") for fields in held if len(fields) > 3)


def on_network(path: Path) -> bool:
    """Return whether a file is on a file system that other machines may have mounted, too."""
    try:
        mounts = _MOUNTS.read_text().splitlines()
    except OSError:
        return False
    return _kind(os.path.realpath(path.parent), mounts).startswith(_NETWORK)


def _kind(directory: str, mounts: list[str]) -> str:
    """Return the kind of a directory's file system: that of the longest mount point above it."""
    best, kind = "", ""
    for line in mounts:
        before, _, after = line.partition(" - ")
        point = before.split()[4].encode().decode("unicode_escape")
        is_above = directory == point or directory.startswith(point.rstrip("/") + "/")
        if is_above and len(point) >= len(best):
            best, kind = point, after.split()[0]
    return kind
