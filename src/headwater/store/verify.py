"""Checks a whole store that no engine serves, or one stream of it; nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headwater.control.catalog_rows import StreamRow
from headwater.disk import Disk
from headwater.errors import Error
from headwater.store import stan_check
from headwater.store.copy_check import OpenedStream, compare_copies
from headwater.store.finding import Finding, Kind, note, of_stream, problem
from headwater.store.shadow import services
from headwater.store.stream_check import StreamCheck
from headwater.store.survey import StreamDirectory, compare, copies, places, read_catalog, read_homes

Progress = Callable[[str], None]


@dataclass
class Report:
    """What a check found, and how much it looked at."""

    findings: list[Finding] = field(default_factory=list)
    streams: int = 0
    unchecked: list[str] = field(default_factory=list)
    """What could not be checked because an engine serves the store."""

    @property
    def problems(self) -> list[Finding]:
        """Return what is wrong."""
        return [found for found in self.findings if found.is_problem]


def verify(store: Path, disk: Disk, progress: Progress, only: str = "") -> Report:
    """Return what is wrong with a store; `only` names one stream as account and name, joined by a slash."""
    report = Report()
    homes, catalog = read_homes(disk, store), read_catalog(store)
    unused = [home for home, _ in copies(homes, places(catalog.rows, store))]
    chosen = [home for home in homes if home not in unused and only in ("", f"{home.account}/{home.name}")]
    if only and not chosen:
        raise Error(f"there is no stream {only} in {store}; streams are named as ACCOUNT/NAME")
    report.findings += [
        found for found in compare(store, homes, catalog) if not only or found.stream in ("", only)
    ]
    rows = {row.identity: row for row in catalog.rows}
    by_path = {row.home(store): row for row in catalog.rows}
    opened: list[OpenedStream] = []
    with services() as shared:
        for number, home in enumerate(chosen, 1):
            said = f"{number} of {len(chosen)}: {home.account}/{home.name}"
            progress(said)
            row = rows.get(home.id) or (by_path.get(home.path) if not home.id else None) or row_of(home)
            report.findings += [of_stream(found, home.account, home.name) for found in home.damage]
            if home.is_unfinished:
                report.findings.append(note(home.path, "its creation was not finished"))
                continue
            if row is None:
                what = problem(Kind.UNREADABLE, home.path, "there is no config to open it with", "")
                report.findings.append(of_stream(what, home.account, home.name))
                continue
            consumers = catalog.consumers.get((row.account, row.name), [])
            check = StreamCheck(disk, shared, row, home.path)
            report.findings += check.run(consumers, lambda step, said=said: progress(f"{said}, {step}"))  # type: ignore[misc]
            report.streams += 1
            if check.opened is not None:
                opened.append(check.opened)
    report.findings += [
        of_stream(found, target.account, target.config.name) for target, found in compare_copies(opened)
    ]
    if not only:
        report.findings += stan_check.check(store)
    return report


def row_of(home: StreamDirectory) -> StreamRow | None:
    """Return the row that a directory says it should have."""
    return StreamRow.of(home.declared, home.path.name) if home.declared is not None else None
