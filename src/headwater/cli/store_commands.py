"""`headwater store`: check a store, with or without an engine that serves it, and repair it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from headwater.control.ownership import Ownership
from headwater.control.store_lock import StoreLock
from headwater.disk import RealDisk
from headwater.errors import Error, StoreLockedError
from headwater.model.counted import counted

if TYPE_CHECKING:
    from headwater.store.finding import Finding

EXIT_PROBLEMS = 1
EXIT_UNCHECKED = 2
_EXITS = """\b
Exit codes:
  0  no problems, or all problems are repaired
  1  there are problems, listed one per line
  2  the store cannot be checked: it is in use or cannot be read
"""
_STORE = click.argument("store", type=click.Path(path_type=Path))


@click.group()
def store() -> None:
    """Check a store for damage, and repair it.

    A store is the directory that `headwater serve --store` names. Stop the engine first, or check with
    `headwater store verify --online` while it runs. Neither command changes anything outside the store.
    """


@store.command(epilog=_EXITS)
@_STORE
@click.option("--stream", "only", default="", metavar="ACCOUNT/NAME", help="Check only this stream.")
@click.option(
    "--online",
    is_flag=True,
    help="Check while an engine serves the store. The report lists what was not checked.",
)
@click.option("--json", "-j", "as_json", is_flag=True, help="Print the report as JSON.")
def verify(store: Path, only: str, online: bool, as_json: bool) -> None:
    """Check every checksum of a store and the consistency of its parts, without changing anything.

    It reads the catalog, the configs next to each stream, every record of the logs, every message of the
    tables, the positions of consumers, mirrors and sources, and the records of NATS Streaming. It prints one
    line for each problem, with its place, its meaning and what to do.
    """
    # Imported here: all other commands need not wait for the libraries that read tables.
    from headwater.store.online import verify_online
    from headwater.store.verify import verify as check_store

    with _readable(store) if online else _locked(store):
        if online:
            report = verify_online(store, _progress, only)
        else:
            report = check_store(store, RealDisk(), _progress, only)
    if as_json:
        said = {"streams": report.streams, "findings": report.findings, "unchecked": report.unchecked}
        click.echo(msgspec.json.encode(said))
    else:
        _print(report.findings)
        for left_out in report.unchecked:
            click.echo(f"not checked online: {left_out}")
        problems = counted(len(report.problems), "problem") if report.problems else "no problems"
        click.echo(f"{counted(report.streams, 'stream')} checked, {problems}")
    sys.exit(EXIT_PROBLEMS if report.problems else 0)


@store.command(epilog=_EXITS)
@_STORE
@click.option("--stream", "only", default="", metavar="ACCOUNT/NAME", help="Repair only this stream.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option(
    "--forget-missing",
    is_flag=True,
    help="Remove streams without a directory from the catalog. Otherwise they stay declared and offline.",
)
@click.option("--json", "-j", "as_json", is_flag=True, help="Print the report as JSON.")
def repair(store: Path, only: str, dry_run: bool, forget_missing: bool, as_json: bool) -> None:
    """Repair a store: rebuild its catalog and Delta logs, attach orphaned streams, quarantine damaged files.

    Nothing is deleted: damaged files are moved to `.quarantine` in the store. Missing messages are recorded
    as lost, so that readers see a gap and their sequences are not used again. Make a copy of the store first
    if you can.
    """
    from headwater.store.repair import Options, Repair

    options = Options(dry_run=dry_run, forget_missing=forget_missing, only=only)
    with _locked(store):
        ownership = Ownership(store)
        if not dry_run:
            # An engine that lost its lock, on a network file system, must not continue during a repair.
            ownership.take()
        repaired = Repair(store, RealDisk(), options, _progress, ownership).run()
    if as_json:
        said = {"done": repaired.done, "before": repaired.before.findings, "left": repaired.left}
        click.echo(msgspec.json.encode({**said, "quarantine": str(repaired.quarantine or "")}))
    else:
        for line in repaired.done:
            click.echo(line)
        if repaired.quarantine is not None:
            click.echo(f"in quarantine: {repaired.quarantine}")
        _print(repaired.left)
        click.echo(_summary(len(repaired.before.problems), len(repaired.left), dry_run))
    sys.exit(EXIT_PROBLEMS if repaired.left else 0)


def _summary(before: int, left: int, dry_run: bool) -> str:
    if not before:
        return "nothing to repair"
    return (
        f"{counted(before, 'problem')}, nothing changed"
        if dry_run
        else f"{counted(before, 'problem')} before, {left or 'none'} left"
    )


def _print(findings: list[Finding]) -> None:
    for found in findings:
        click.echo(str(found))


def _progress(said: str) -> None:
    """Show the progress; on a terminal in one line."""
    if sys.stderr.isatty():
        click.echo(f"\r\033[K{said}", nl=False, err=True)
    elif ", file " not in said:
        click.echo(said, err=True)


@contextmanager
def _locked(store: Path) -> Iterator[None]:
    """Hold the store's lock during a block; exit if another process holds it."""
    with _readable(store):
        lock = StoreLock(store)
        try:
            lock.take()
        except StoreLockedError as error:
            _leave(f"{error}; stop the engine first, or check with `headwater store verify --online`")
        try:
            yield
        finally:
            lock.release()


@contextmanager
def _readable(store: Path) -> Iterator[None]:
    """Exit with one sentence if the store cannot be read."""
    if not store.is_dir():
        _leave(f"{store} is not a directory")
    try:
        yield
    except (Error, OSError) as error:
        _leave(str(error))
    finally:
        if sys.stderr.isatty():
            click.echo("\r\033[K", nl=False, err=True)


def _leave(why: str) -> None:
    click.echo(f"headwater: {why}", err=True)
    sys.exit(EXIT_UNCHECKED)
