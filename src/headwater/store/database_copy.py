"""Copies of SQLite files to look at, so that a check changes nothing in the store."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

CopyDatabase = Callable[[Path, Path], None]
BUSY_S = 5.0


def copy_at_rest(path: Path, target: Path) -> None:
    """Copy a database that no process has open, with its write-ahead log and the mark that it was open."""
    for suffix in ("", "-wal", "-open"):
        if (found := path.with_name(path.name + suffix)).exists():
            shutil.copyfile(found, target.with_name(target.name + suffix))


def copy_in_use(path: Path, target: Path) -> None:
    """Copy one committed state of a database that another process writes."""
    source = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=BUSY_S)
    copied = sqlite3.connect(target)
    try:
        # A read transaction first: without one, a backup of a locked file would wait without an end.
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_master").fetchone()
        source.backup(copied)
    finally:
        copied.close()
        source.close()
