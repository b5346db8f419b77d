"""Opens the sqlite files of a store so that they are safe on the file system they lie on.

In WAL mode sqlite keeps an index of the log in memory that processes share by a file, `-shm`. That cannot
work on a network file system, and cannot be made on a full disk. There the file is opened for this process
alone: the index is in its own memory then, and no other process can open the file as long as this one has
it.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from pathlib import Path

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


def open_database(path: Path) -> sqlite3.Connection:
    """Return a connection that any thread may use, every commit of which is durable.

    A damaged write-ahead log is refused: SQLite would leave out later transactions without an error.
    """
    match state_of(path):
        case WalState.DAMAGED as state:
            raise sqlite3.DatabaseError(f"{wal_path(path)}: {state}")
        case WalState.TORN as state:
            logger.warning("%s: %s; that transaction is left out", wal_path(path), state)
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
    raise AssertionError("one of both returns or raises")


def on_network(path: Path) -> bool:
    """Return whether a file lies on a file system that other machines may have mounted, too."""
    try:
        mounts = _MOUNTS.read_text().splitlines()
    except OSError:
        return False
    return _kind(os.path.realpath(path.parent), mounts).startswith(_NETWORK)


def _kind(directory: str, mounts: list[str]) -> str:
    """Return the kind of file system that a directory lies on: that of the longest mount point above it."""
    best, kind = "", ""
    for line in mounts:
        before, _, after = line.partition(" - ")
        point = before.split()[4].encode().decode("unicode_escape")
        is_above = directory == point or directory.startswith(point.rstrip("/") + "/")
        if is_above and len(point) >= len(best):
            best, kind = point, after.split()[0]
    return kind
