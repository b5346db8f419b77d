"""SQLite files in a journal: each transaction is there before it is committed here, or nowhere."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from breakable_objects import BreakableObjects, ObjectFault
from headwater.control.catalog import Catalog
from headwater.control.catalog_rows import StreamRow
from headwater.errors import DiskError
from headwater.journal import shipper
from headwater.journal.journaled_database import PAGE, JournaledDatabase, changed
from headwater.journal.object_journal import ObjectJournal
from headwater.journal.record import FileOp
from headwater.stan.records import Records, add_channel, keep
from journals import Head, folder, folder_journal
from rounds import choose_seed


def row(name: str) -> StreamRow:
    return StreamRow("$G", name, "{}", 1, f"id-{name}", name)


def names(catalog: Catalog) -> list[str]:
    return [stream.name for stream in catalog.streams("$G")]


def test_changed_pages_and_nothing_else_are_shipped() -> None:
    old = bytes(10 * PAGE)
    new = bytearray(old + b"x" * PAGE)
    new[PAGE] = new[2 * PAGE] = new[5 * PAGE] = 1
    found = changed("db", old, bytes(new))
    assert [(p.offset // PAGE, len(p.data) // PAGE, p.more) for p in found] == [
        (1, 2, True),
        (5, 1, True),
        (10, 1, False),
    ]
    assert changed("db", old, old) == []
    assert [p.op for p in changed("db", old, old[:PAGE])] == [FileOp.WHOLE]


def test_the_next_engine_has_every_declared_stream(tmp_path: Path) -> None:
    chance = random.Random(choose_seed())
    head = Head(folder_journal(tmp_path / "journal"), tmp_path / "a")
    path = head.store / "catalog.db"
    catalog = Catalog(path, head.disk, replica=JournaledDatabase(head.disk, path))
    expected: set[str] = set()
    for number in range(60):
        if expected and chance.random() < 0.3:
            gone = chance.choice(sorted(expected))
            catalog.delete("$G", gone)
            expected.discard(gone)
        else:
            catalog.create(row(f"S{number}"))
            expected.add(f"S{number}")
    other = Head(folder_journal(tmp_path / "journal"), tmp_path / "b")
    path = other.store / "catalog.db"
    again = Catalog(path, other.disk, replica=JournaledDatabase(other.disk, path))
    assert (names(again), again.store_id) == (sorted(expected), catalog.store_id)
    again.create(row("later"))
    third = Head(folder_journal(tmp_path / "journal"), tmp_path / "c")
    assert names(Catalog(third.store / "catalog.db")) == sorted({*expected, "later"})


def test_a_transaction_that_the_journal_refused_is_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = BreakableObjects(folder(tmp_path / "journal"))
    head = Head(ObjectJournal(objects), tmp_path / "a")
    path = head.store / "catalog.db"
    catalog = Catalog(path, head.disk, replica=JournaledDatabase(head.disk, path))
    catalog.create(row("kept"))
    objects.break_always(ObjectFault.REFUSED)
    with monkeypatch.context() as patch:
        patch.setattr(shipper, "PATIENCE_S", 0.2)
        with pytest.raises(DiskError):
            catalog.create(row("refused"))
    assert names(catalog) == ["kept"]
    objects.heal()
    head.disk.flush()
    other = Head(folder_journal(tmp_path / "journal"), tmp_path / "b")
    assert names(Catalog(other.store / "catalog.db")) == ["kept"]


def test_a_transaction_that_the_local_disk_refused_is_undone_before_its_caller_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = Head(folder_journal(tmp_path / "journal"), tmp_path / "a")
    path = head.store / "catalog.db"
    catalog = Catalog(path, head.disk, replica=JournaledDatabase(head.disk, path))
    catalog.create(row("kept"))

    class FullConnection:
        """A connection that can neither commit nor begin again."""

        def __init__(self, db: sqlite3.Connection) -> None:
            self._db = db
            self.refuses = False

        def __getattr__(self, name: str) -> object:
            return getattr(self._db, name)

        def execute(self, statement: str, *args: object) -> object:
            self.refuses |= statement == "COMMIT"
            if self.refuses and statement in ("COMMIT", "BEGIN IMMEDIATE"):
                raise sqlite3.OperationalError("database or disk is full")
            return self._db.execute(statement, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(catalog._file, "_db", FullConnection(catalog._file._db))
    with pytest.raises(sqlite3.OperationalError):
        catalog.create(row("refused"))
    assert head.shipper.unshipped_bytes == 0
    other = Head(folder_journal(tmp_path / "journal"), tmp_path / "b")
    assert names(Catalog(other.store / "catalog.db")) == ["kept"]


def test_a_database_that_is_opened_again_continues_from_what_was_shipped(tmp_path: Path) -> None:
    head = Head(folder_journal(tmp_path / "journal"), tmp_path / "a")
    path = head.store / "catalog.db"
    for number in range(5):
        catalog = Catalog(path, head.disk, replica=JournaledDatabase(head.disk, path))
        catalog.create(row(f"S{number}"))
        catalog.close()
    other = Head(folder_journal(tmp_path / "journal"), tmp_path / "b")
    assert names(Catalog(other.store / "catalog.db")) == [f"S{number}" for number in range(5)]


def test_the_next_engine_has_the_clients_of_nats_streaming(tmp_path: Path) -> None:
    head = Head(folder_journal(tmp_path / "journal"), tmp_path / "a")
    path = head.store / "stan.$G.db"
    kept = Records(path, replica=JournaledDatabase(head.disk, path))
    kept.write([keep("server_id", "x")])
    kept.write([add_channel("orders", "id-1")])
    other = Head(folder_journal(tmp_path / "journal"), tmp_path / "b")
    found = Records(other.store / "stan.$G.db")
    assert (found.server(), found.channels()) == ({"server_id": "x"}, {"orders": "id-1"})


def test_a_transaction_that_fails_here_is_undone_there(tmp_path: Path) -> None:
    head = Head(folder_journal(tmp_path / "journal"), tmp_path / "a")
    path = head.store / "x.db"
    replica = JournaledDatabase(head.disk, path)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("BEGIN")
    db.execute("CREATE TABLE t (a)")
    replica.ship(db)
    db.execute("COMMIT")
    db.execute("BEGIN")
    db.execute("INSERT INTO t VALUES (1)")
    replica.ship(db)
    db.execute("ROLLBACK")
    replica.undo()
    # At once: the caller is refused next, and another engine may take over at any time.
    assert head.shipper.unshipped_bytes == 0
    other = Head(folder_journal(tmp_path / "journal"), tmp_path / "b")
    found = sqlite3.connect(other.store / "x.db").execute("SELECT count(*) FROM t").fetchone()
    assert found == (0,)
