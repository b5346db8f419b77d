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

BUSY_TIMEOUT_S = 5.0
_MOUNTS = Path("/proc/self/mountinfo")
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
