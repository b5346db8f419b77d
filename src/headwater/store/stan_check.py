"""The records of NATS Streaming in a store: checked, and cleared of rows that are damaged."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from errno import EIO, ENOSPC
from pathlib import Path

from headwater.control.open_mark import OpenMark
from headwater.control.wal_file import WalState, resealed, state_of, wal_path
from headwater.disk import RealDisk
from headwater.errors import DiskError, NewerFormatError
from headwater.model.counted import counted
from headwater.stan.records import Records, RecordsError, drop_damaged
from headwater.store.database_copy import CopyDatabase, copy_at_rest
from headwater.store.finding import Finding, Kind, problem
from headwater.store.quarantine import Quarantine

_WITHOUT_WAL = (
    "it is missing; the file is used without it. Subscriptions have older positions: messages are delivered"
    " again. Subscriptions that are newer than that must be made again"
)
_PRIMARY = 0xFF
"""The part of an error code of SQLite that the documentation calls primary."""
_REFUSALS = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)
"""Errors of the disk or of the system."""
_MEANING = "NATS Streaming clients of this account are not served"


def files(store: Path) -> list[Path]:
    """Return the files of records, one for each account that has any."""
    return sorted(store.glob("stan.*.db"))


def check(store: Path, copy: CopyDatabase = copy_at_rest) -> list[Finding]:
    """Return which records are damaged; the files are copied first, so that nothing is changed."""
    found = []
    for path in files(store):
        with tempfile.TemporaryDirectory(prefix="headwater-verify-") as scratch:
            try:
                copy(path, Path(scratch) / path.name)
                Records(Path(scratch) / path.name).close()
            except sqlite3.OperationalError:
                raise  # it is locked, or cannot be opened: that says nothing about what it holds
            except (RecordsError, NewerFormatError, sqlite3.Error) as error:
                what = str(error).replace(scratch, str(store))
                found.append(problem(Kind.STAN, path, what, _MEANING))
    return found


def repair(store: Path, quarantine: Quarantine, dry_run: bool) -> list[str]:
    """Return what was done: damaged rows go, and if the file cannot be read at all, all of it."""
    done = []
    damaged = {found.where for found in check(store)}
    for path in files(store):
        if str(path) not in damaged:
            continue
        if dry_run:
            done.append(f"{path}: damaged rows would be removed, with a copy of the file in quarantine")
            continue
        for suffix in ("", "-wal"):
            quarantine.copy_file(path.with_name(path.name + suffix))
        done += _repaired(path) or _set_aside(path, quarantine)
    return done


def _repaired(path: Path) -> list[str]:
    """Return what was done to make the file usable, nothing if it still is not."""
    done = []
    try:
        if state_of(path) is WalState.DAMAGED:
            done.append(_repair_wal(path))
        if (mark := OpenMark(path)).left_at:
            mark.drop()
            done.append(f"{wal_path(path)}: {_WITHOUT_WAL}")
        gone = drop_damaged(path)
        Records(path).close()
    except (sqlite3.Error, RecordsError, ValueError) as error:
        _require_damage(path, error)
        return []
    if gone:
        done.append(
            f"{path}: removed {counted(gone, 'damaged row')}; a copy is in quarantine. Clients and"
            " subscriptions in them must connect and subscribe again, and get messages again from their start"
            " position"
        )
    return done


def _repair_wal(path: Path) -> str:
    """Have SQLite use as much of a damaged write-ahead log as its rows' checksums confirm."""
    wal = wal_path(path)
    with tempfile.TemporaryDirectory(prefix="headwater-repair-") as scratch:
        tried = Path(scratch) / path.name
        shutil.copyfile(path, tried)
        wal_path(tried).write_bytes(resealed_log := resealed(path))
        try:
            drop_damaged(tried)
            Records(tried).close()
        except (sqlite3.Error, RecordsError) as error:
            _require_damage(tried, error)
            _use_whole_part(path)
            return (
                f"{wal}: only the part before the damage could be used. Subscriptions have older positions:"
                " messages are delivered again. Subscriptions that are newer than that must be made again"
            )
    # A full disk must leave the old one: it has transactions that the file lacks.
    RealDisk().write_atomic(wal, resealed_log)
    _use_whole_part(path)
    return f"{wal}: it was damaged; its transactions were recovered, and every row was checked"


def _use_whole_part(path: Path) -> None:
    """Have SQLite move what it can use of the write-ahead log into the file, and remove the log."""
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        db.close()


def _require_damage(path: Path, error: Exception) -> None:
    """Raise if an error says nothing about the content: a full disk must not cost readable records."""
    code = getattr(error, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_FULL:
        raise DiskError(path, "write", ENOSPC) from error
    if code is not None and code & _PRIMARY in _REFUSALS and code != sqlite3.SQLITE_IOERR_SHORT_READ:
        raise DiskError(path, "write", EIO) from error


def _set_aside(path: Path, quarantine: Quarantine) -> list[str]:
    for suffix in ("", "-wal", "-shm", "-open"):
        quarantine.take(path.with_name(path.name + suffix), again=True)
    return [
        f"{path}: it cannot be read, and is in quarantine. All clients must connect and subscribe again;"
        " durable subscriptions begin at the start position that the client asks for"
    ]
