"""The contents of a store as a journal has them, and as they are read from one.

A journal has whole SQLite files instead of files with write-ahead logs, the address of each table instead of
a folder, and no epoch: its records have that.
"""

from __future__ import annotations

import re
import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from headwater.control.catalog import Catalog
from headwater.control.ownership import NAME as EPOCH
from headwater.control.ownership import Owner
from headwater.control.sqlite_file import open_database
from headwater.errors import CorruptionError
from headwater.journal.opened_head import await_journal
from headwater.journal.record import RecordKind
from headwater.journal.takeover import SILENCE_S
from headwater.objects.bucket import Bucket
from headwater.settings import Settings
from headwater.stan.records import Records
from headwater.store.copy_source import (
    HEAD,
    LOG,
    CopyError,
    CopyItem,
    StoreContents,
    read_directory,
    read_head,
)
from headwater.store.rebuilt_head import rebuild_head
from headwater.store.store_copy import reference
from headwater.store.survey import CATALOG
from headwater.table.remote_table import TABLE

_DATABASE = re.compile(rf"{HEAD}/([^/]+\.db)(-wal|-open)?")
LOOK_S = 0.25


@dataclass(frozen=True)
class JournaledContents:
    """What is written into a journal and next to it, and the epoch that an engine must exceed."""

    contents: StoreContents
    epoch: int


def for_journal(contents: StoreContents, tables: Bucket, scratch: Path) -> JournaledContents:
    """Return the contents with which an engine can take over, whose tables are in a bucket then.

    Databases are merged with their write-ahead logs in `scratch`. A stream that has no address of its table
    gets the one that a copy in the bucket has.
    """
    items = {item.name: item for item in contents.items}
    epochs = [_epoch(items.pop(f"{HEAD}/{EPOCH}", None))]
    databases = sorted({found[1] for name in items if (found := _DATABASE.fullmatch(name))})
    for name in databases:
        epochs.append(_merge(name, items, scratch))
    # A memory stream has only its declaration, and no table.
    logged = {(parts[1], parts[2]) for name in items if (parts := name.split("/"))[3:4] == [LOG]}
    for account, stream in sorted(logged | set(contents.streams)):
        name = f"{HEAD}/{account}/{stream}/{TABLE}"
        if name not in items:
            items[name] = _item(name, reference(tables, account, stream))
    return JournaledContents(replace(contents, items=list(items.values())), max(epochs))


def _merge(name: str, items: dict[str, CopyItem], scratch: Path) -> int:
    """Have one item in place of a database and its write-ahead log; return the epoch in a catalog."""
    path = scratch / name
    for suffix in ("", "-wal", "-open"):
        item = items.pop(f"{HEAD}/{name}{suffix}", None)
        if item is not None:
            path.with_name(name + suffix).write_bytes(item.read())
    epoch = 0
    # Each is opened as an engine does it, which refuses damage and a write-ahead log that is missing.
    if name == CATALOG:
        with closing(Catalog(path, over_streams=True)) as catalog:
            epoch = catalog.epoch
    else:
        Records(path).close()
    with closing(open_database(path)) as db:
        image = db.serialize()
    items[f"{HEAD}/{name}"] = _item(f"{HEAD}/{name}", image)
    return epoch


def _epoch(item: CopyItem | None) -> int:
    """Return the epoch of the store's last owner, 0 if there is no readable record."""
    try:
        return Owner.decode(item.read(), Path(EPOCH)).epoch if item is not None else 0
    except CorruptionError:
        return 0


def _item(name: str, data: bytes) -> CopyItem:
    return CopyItem(name, len(data), lambda: data)


def read_journal(settings: Settings, tables: Bucket, folder: Path, *, tables_stay: bool) -> StoreContents:
    """Return the contents of a store in a journal that no engine serves; the folder gets its head."""
    final = rebuild_head(settings, folder)
    if final.kind != RecordKind.CLOSED:
        _await_silence(settings, final.position)
    # Also without `tables_stay`: this checks that the tables are where the caller expects them.
    head = read_head(folder, tables.location)
    contents = head if tables_stay else read_directory(folder)

    def require_unchanged() -> None:
        if _last(settings) != final.position:
            raise CopyError("an engine has taken over the store during the copy: stop it, and copy again")

    return replace(contents, require_unchanged=require_unchanged)


def _last(settings: Settings) -> int:
    with closing(await_journal(settings, reads_only=True)) as journal:
        return journal.last()


def _await_silence(settings: Settings, position: int) -> None:
    """Raise if an engine appends to the journal: it serves the store."""
    with closing(await_journal(settings, reads_only=True)) as journal:
        until = time.monotonic() + SILENCE_S
        while time.monotonic() < until:
            if journal.last(position) > position:
                raise CopyError(f"an engine serves the store in {journal.address}: stop it first")
            time.sleep(LOOK_S)
