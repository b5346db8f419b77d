"""Checks a store, or one stream of it, while an engine serves it; nothing is locked or changed.

Whatever looks wrong is checked again, from a new listing, before it is reported (`recheck`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from headwater.disk import RealDisk
from headwater.errors import Error, NewerFormatError
from headwater.model.stream import Storage
from headwater.store import stan_check
from headwater.store.database_copy import copy_in_use
from headwater.store.finding import Finding, Kind, of_stream, problem
from headwater.store.online_check import OFFLINE, OnlineCheck
from headwater.store.recheck import FilesGoneError, confirmed
from headwater.store.survey import CATALOG, CatalogView, StreamDirectory, compare, read_catalog, read_homes
from headwater.store.verify import Progress, Report, row_of
from headwater.wire.stream_json import decode_config

NOT_ONLINE = (
    "whether log and table together hold every message",
    "the positions of consumers and of mirrors and sources",
    "the last record of each log, which may still be written",
    "streams in memory",
)


def verify_online(store: Path, progress: Progress, only: str = "") -> Report:
    """Return what is wrong with a store that is in use; `only` names one stream as ACCOUNT/NAME."""
    report = Report(unchecked=list(NOT_ONLINE))
    disk = RealDisk()
    chosen = [home for home in read_homes(disk, store) if not only or _name(home) == only]
    if only and not chosen:
        raise Error(f"there is no stream {only} in {store}; streams are named as ACCOUNT/NAME")
    _check_declared(store, report, only)
    for number, home in enumerate(chosen, 1):
        said = f"{number} of {len(chosen)}: {_name(home)}"
        progress(said)
        if not home.is_unfinished and not _is_in_memory(home):
            _check_stream(home, report, lambda step, said=said: progress(f"{said}, {step}"))  # type: ignore[misc]
    if not only:
        _unless_locked(report, "stan.*.db", lambda: stan_check.check(store, copy_in_use))
    return report


def _name(home: StreamDirectory) -> str:
    return f"{home.account}/{home.name}"


def _check_declared(store: Path, report: Report, only: str) -> None:
    """Compare the catalog with the directories, and check what each directory says about itself."""

    def look() -> list[Finding]:
        # First the directories: a stream that is created meanwhile is in the catalog alone. That cannot be
        # distinguished from a missing directory, but not in every look.
        homes = read_homes(RealDisk(), store)
        damage = [
            of_stream(found, home.account, home.name)
            for home in homes
            if not home.is_unfinished
            for found in home.damage
        ]
        found = damage + compare(store, homes, _catalog(store))
        return [each for each in found if not only or each.stream in ("", only)]

    _unless_locked(report, CATALOG, look)


def _catalog(store: Path) -> CatalogView:
    return read_catalog(store, copy_in_use)


def _unless_locked(report: Report, name: str, look: Callable[[], list[Finding]]) -> None:
    try:
        report.findings += confirmed(look)
    except sqlite3.OperationalError as error:
        report.unchecked.append(f"{name}: {error}")
    except FilesGoneError:
        report.unchecked.append(f"{name}: it changed during every attempt")


def _is_in_memory(home: StreamDirectory) -> bool:
    row = row_of(home)
    if row is None:
        return False
    try:
        return decode_config(row.config.encode())[0].storage is Storage.MEMORY
    except Error:
        return False


def _check_stream(home: StreamDirectory, report: Report, progress: Progress) -> None:
    found: list[Finding] = []
    check = OnlineCheck(home)
    try:
        found = check.run(progress)
    except FilesGoneError:
        if not check.is_there:
            return
        what = "a file of the stream was missing at every attempt"
        found = [problem(Kind.UNREADABLE, home.path, what, "The stream could not be checked", OFFLINE)]
    except NewerFormatError as error:
        found = [problem(Kind.UNREADABLE, home.path, error, "The stream could not be checked", "")]
    report.findings += [of_stream(each, home.account, home.name) for each in found]
    report.streams += check.is_there
