"""The records of NATS Streaming in a store: checked, and cleared of rows that are damaged."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path

from headwater.errors import NewerFormatError
from headwater.stan.records import Records, RecordsError, drop_damaged
from headwater.store.finding import Finding, Kind, problem
from headwater.store.quarantine import Quarantine

_MEANING = "NATS Streaming clients of this account are not served"


def files(store: Path) -> list[Path]:
    """Return the files of records, one for each account that has any."""
    return sorted(store.glob("stan.*.db"))


def check(store: Path) -> list[Finding]:
    """Return which records are damaged; the files are copied first, so that nothing is changed."""
    found = []
    for path in files(store):
        with tempfile.TemporaryDirectory(prefix="headwater-verify-") as scratch:
            for suffix in ("", "-wal"):
                if (from_path := path.with_name(path.name + suffix)).exists():
                    shutil.copyfile(from_path, Path(scratch) / from_path.name)
            try:
                Records(Path(scratch) / path.name).close()
            except (RecordsError, NewerFormatError) as error:
                what = str(error).replace(scratch, str(store))
                found.append(problem(Kind.STAN, path, what, _MEANING))
    return found


def repair(store: Path, quarantine: Quarantine, dry_run: bool) -> list[str]:
    """Return what was done: damaged rows go, and where the file cannot be read at all, all of it."""
    done = []
    for path in files(store):
        if not any(found.where == str(path) for found in check(store)):
            continue
        if dry_run:
            done.append(f"{path}: damaged rows would go to quarantine")
            continue
        kept = path.with_name(path.name + ".damaged")
        shutil.copyfile(path, kept)
        try:
            gone = drop_damaged(path)
            Records(path).close()
            quarantine.take(kept)
            done.append(f"{path}: {gone} damaged rows were taken out; a copy is in quarantine")
        except (sqlite3.Error, RecordsError):
            kept.unlink()
            for suffix in ("", "-wal", "-shm"):
                quarantine.take(path.with_name(path.name + suffix))
            done.append(
                f"{path}: it cannot be read, and is in quarantine; clients subscribe again from their start"
            )
    return done
