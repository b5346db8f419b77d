"""Changes of a catalog whose sync fails, and the rows that the next process finds; runs on the shim.

Prints one JSON line: for each case the change, the fault, and the rows before it, after it and after a kill;
the same after a kill, another change and a power cut.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from headwater.control.catalog import Catalog
from headwater.control.catalog_rows import ConsumerRow, StreamRow
from simulation.engine.power import Medium
from simulation.engine.shim import Fault, Op, Shim

Rows = list[str]
POWER_CUTS = 4
CHANGES: dict[str, Callable[[Catalog], None]] = {
    "create": lambda catalog: catalog.create(stream("b")),
    "update": lambda catalog: catalog.update("$G", "a", '{"n":2}'),
    "delete": lambda catalog: catalog.delete("$G", "a", tombstone=True),
    "declare a consumer": lambda catalog: catalog.declare_consumer(ConsumerRow("$G", "a", "d", "{}", 5)),
    "forget a consumer": lambda catalog: catalog.forget_consumer("$G", "a", "c"),
}


def stream(name: str) -> StreamRow:
    """Return the row of a stream."""
    return StreamRow("$G", name, "{}", 17, f"id-{name}", name)


def rows(catalog: Catalog) -> Rows:
    """Return everything that a catalog declares."""
    found = [f"{row.name} {row.config}" for row in catalog.streams("$G")]
    found += [f"a/{row.name} {row.config}" for row in catalog.consumers("$G", "a")]
    return [*found, *(f"deleted {identity}" for identity in sorted(catalog.deletions()))]


def after_kill(shim: Shim, store: Path, copy: Path) -> Rows:
    """Return what another process finds in the files as they are now."""
    with shim.aside():
        copy.mkdir()
        for file in store.iterdir():
            if file.is_file() and not file.name.endswith("-shm"):
                shutil.copy(file, copy / file.name)
        catalog = Catalog(copy / "catalog.db", over_streams=True)
        found = rows(catalog)
        catalog.close()
    return found


def case(root: Path, change: str, fault: Fault, lasts: bool) -> dict[str, object]:
    """Have a change refused, by one failed sync or by all until the disk is healthy again."""
    store = root / "store"
    store.mkdir(parents=True)
    shim = Shim()
    shim.begin(store, 1)
    catalog = Catalog(store / "catalog.db")
    catalog.create(stream("a"))
    catalog.put_consumer(ConsumerRow("$G", "a", "c", "{}", 5))
    before = rows(catalog)
    shim.rate(Op.SYNC, fault, 1.0)
    if not lasts:
        heal_at_next_statement(catalog, shim)
    refused = ""
    try:
        CHANGES[change](catalog)
    except sqlite3.Error as error:
        refused = str(error)
    shim.heal()
    return {
        "change": change,
        "fault": fault.name,
        "lasts": lasts,
        "refused": refused,
        "before": before,
        "after": rows(catalog),
        "after a kill": after_kill(shim, store, root / "copy"),
    }


def power_case(root: Path, change: str, seed: int) -> dict[str, object]:
    """Have a change refused, kill the process, declare a stream in the next one, and cut the power."""
    store, killed, cut = root / "store", root / "killed", root / "cut"
    store.mkdir(parents=True)
    shim, medium = Shim(), Medium(store)
    shim.begin(store, seed)
    first = Catalog(store / "catalog.db")
    first.create(stream("a"))
    first.put_consumer(ConsumerRow("$G", "a", "c", "{}", 5))
    shim.rate(Op.SYNC, Fault.REFUSED, 1.0)
    with suppress(sqlite3.Error):
        CHANGES[change](first)
    shim.heal()
    with shim.aside():
        medium.replay(shim.trace())
        shutil.copytree(store, killed)
        medium.rebind(killed)
    shim.begin(killed, seed)
    second = Catalog(killed / "catalog.db", over_streams=True)
    second.create(stream("later"))
    promised = rows(second)
    with shim.aside():
        medium.replay(shim.trace())
        medium.cut(random.Random(seed), cut)
    shim.begin(cut, seed)
    found = rows(Catalog(cut / "catalog.db", over_streams=True))
    return {"change": change, "seed": seed, "promised": promised, "found": found}


def heal_at_next_statement(catalog: Catalog, shim: Shim) -> None:
    """Have the disk be healthy again as soon as a commit has failed."""

    class Healing:
        """A connection to the catalog's file."""

        def __init__(self, db: sqlite3.Connection) -> None:
            self._db = db

        def __getattr__(self, name: str) -> object:
            return getattr(self._db, name)

        def execute(self, statement: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
            """Run a statement; after a failed one nothing is broken."""
            try:
                return self._db.execute(statement, values)
            except sqlite3.Error:
                shim.heal()
                raise

    catalog._file._db = Healing(catalog._file._db)  # type: ignore[assignment]


def main() -> None:
    """Run every case in a directory of its own."""
    root = Path(sys.argv[1])
    cases = [
        case(root / f"{change} {fault.name} {lasts}", change, fault, lasts)
        for change in CHANGES
        for fault in (Fault.REFUSED, Fault.LATE)
        for lasts in (False, True)
    ]
    cuts = [
        power_case(root / f"{change} {seed}", change, seed)
        for change in CHANGES
        for seed in range(POWER_CUTS)
    ]
    print(json.dumps({"cases": cases, "cuts": cuts}))


if __name__ == "__main__":
    main()
