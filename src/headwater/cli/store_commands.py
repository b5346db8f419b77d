"""`headwater store`: check a store, with or without an engine that serves it, repair it, and copy it."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
import msgspec

from headwater.cli.phrases import size
from headwater.cli.progress import Meter
from headwater.control.ownership import Ownership
from headwater.control.store_lock import StoreLock
from headwater.disk import RealDisk
from headwater.errors import Error, StoreLockedError
from headwater.journal.opened_head import MARK
from headwater.model.counted import counted

if TYPE_CHECKING:
    from headwater.store.finding import Finding
    from headwater.store.verify import Report

EXIT_PROBLEMS = 1
EXIT_UNCHECKED = 2
_EXITS = """\b
Exit codes:
  0  no problems, or all problems are repaired
  1  there are problems, listed one per line
  2  the store cannot be checked: it is in use or cannot be read
"""
_COPY_EXITS = """\b
Exit codes:
  0  the copy is complete, and every file was compared
  2  nothing was copied, or not everything: run the same command again to continue
"""
_STORE = click.argument("store", type=click.Path(path_type=Path))


@click.group()
def store() -> None:
    """Check a store for damage, repair it, and copy it.

    A store is the directory that `headwater serve --store` names. Stop the engine first, or check with
    `headwater store verify --online` while it runs.
    """


@store.command(epilog=_EXITS)
@click.argument("store", type=click.Path(path_type=Path), required=False)
@click.option("--stream", "only", default="", metavar="ACCOUNT/NAME", help="Check only this stream.")
@click.option(
    "--journal",
    default="",
    metavar="ADDRESS",
    help="Check the store that an engine would take over from this journal, instead of a directory.",
)
@click.option(
    "--journal-creds", type=click.Path(path_type=Path), help="Credentials file of the journal's NATS servers."
)
@click.option(
    "--online",
    is_flag=True,
    help="Check while an engine serves the store. The report lists what was not checked.",
)
@click.option("--json", "-j", "as_json", is_flag=True, help="Print the report as JSON.")
def verify(
    store: Path | None, only: str, journal: str, journal_creds: Path | None, online: bool, as_json: bool
) -> None:
    """Check every checksum of a store and the consistency of its parts, without changing anything.

    It reads the catalog, the configs next to each stream, every record of the logs, every message of the
    tables, the positions of consumers, mirrors and sources, and the records of NATS Streaming. It prints one
    line for each problem, with its place, its meaning and what to do.

    With `--journal` the head is written from the journal to a temporary folder and checked there, with the
    tables that it names. The journal is not changed. Stop its engine first: what an engine changes meanwhile
    may be reported as a problem.
    """
    if journal:
        with _refusing():
            report = _verify_journal(journal, journal_creds, only)
    elif store is not None:
        report = _verify_directory(store, only, online)
    else:
        raise click.UsageError("name the directory of a store, or a --journal")
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


def _verify_journal(address: str, creds: Path | None, only: str) -> Report:
    """Check the head in a journal, in a temporary folder."""
    from headwater.journal.record import RecordKind
    from headwater.store.rebuilt_head import journal_settings, rebuild_head
    from headwater.store.verify import verify as check_store

    with TemporaryDirectory(prefix="headwater-journal-") as folder:
        if rebuild_head(journal_settings(address, creds), Path(folder)).kind != RecordKind.CLOSED:
            click.echo("an engine may be serving this store, or was lost", err=True)
        report = check_store(Path(folder), RealDisk(), _progress, only)
    report.findings = [
        msgspec.structs.replace(
            found,
            where=found.where.replace(folder, "the journal"),
            what=found.what.replace(folder, "the journal"),
            remedy="",
        )
        for found in report.findings
    ]
    return report


def _verify_directory(store: Path, only: str, online: bool) -> Report:
    # Imported here: all other commands need not wait for the libraries that read tables.
    from headwater.store.online import verify_online
    from headwater.store.verify import verify as check_store

    with _readable(store) if online else _locked(store):
        if (store / MARK).exists():
            # What is missing here is written again from the journal when an engine takes over.
            click.echo(
                f"{store} is a cache of a journal: only the cache is checked; use --journal for the journal",
                err=True,
            )
        if online:
            return verify_online(store, _progress, only)
        return check_store(store, RealDisk(), _progress, only)


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
    from headwater.store.repair import Repair
    from headwater.store.repair_job import Options

    if (store / MARK).exists():
        _leave(
            f"{store} is a cache of a journal, and repairing it would change nothing: remove the directory, "
            "and start an engine with --journal, which writes it again"
        )
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


@store.command(epilog=_COPY_EXITS)
@click.argument("source")
@click.argument("target")
@click.option("--endpoint", default=None, metavar="URL", help="Address of the S3 server; not for Amazon's.")
@click.option("--region", default=None, help="Region of the bucket; otherwise AWS_REGION.")
@click.option(
    "--to-journal",
    default="",
    metavar="ADDRESS",
    help="Write the head into this empty journal; TARGET is the bucket for the tables.",
)
@click.option(
    "--from-journal",
    default="",
    metavar="ADDRESS",
    help="Take the head from this journal; SOURCE is the bucket with the tables.",
)
@click.option(
    "--journal-creds", type=click.Path(path_type=Path), help="Credentials file of the journal's NATS servers."
)
@click.option(
    "--journal-lenient",
    is_flag=True,
    help="Accept a NATS journal with fewer than three replicas, or whose servers do not sync each write.",
)
@click.option(
    "--tables-stay",
    is_flag=True,
    help="Copy only the head. The tables are used where they are, with `serve --tables`.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be copied.")
def copy(source: str, target: str, dry_run: bool, **options: Any) -> None:
    """Copy a whole store, from a directory to a bucket (s3://bucket/prefix), back, or between directories.

    Stop the engine first. The target must be empty, or hold an unfinished copy of the same store, which is
    then continued. Every file is read back and compared. The source is not changed. Credentials come from
    the environment, as those of `serve --tables`.

    A journal holds the head of a store. With `--to-journal`, engines with `serve --journal` and an empty
    directory take over from there. With `--from-journal`, a store in a journal becomes one in a directory.
    """
    from headwater.store.copy_route import CopyOptions, opened_route
    from headwater.store.store_copy import copy as copy_store

    asked = CopyOptions(source, target, dry_run=dry_run, **options)
    is_bucket = "://" in source
    with _refusing(), nullcontext() if is_bucket else _locked(Path(source)), opened_route(asked) as route:
        contents = route.contents
        what = f"{len(contents.items)} files of {len(contents.streams)} streams, {size(contents.nbytes)}"
        if dry_run or route.target is None:
            click.echo(f"would copy {what}, from {source} to {target}")
            return
        with Meter("copying and comparing", 2 * contents.nbytes, say=size) as meter:
            copy_store(contents, route.target, meter.advance)
        click.echo(f"copied {what}, from {source} to {target}; every file was compared")


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
    except (Error, OSError, sqlite3.Error) as error:
        _leave(str(error))
    finally:
        if sys.stderr.isatty():
            click.echo("\r\033[K", nl=False, err=True)


@contextmanager
def _refusing() -> Iterator[None]:
    """Exit with one sentence if a store cannot be copied."""
    try:
        yield
    except (Error, OSError) as error:
        _leave(str(error))


def _leave(why: str) -> None:
    click.echo(f"headwater: {why}", err=True)
    sys.exit(EXIT_UNCHECKED)
