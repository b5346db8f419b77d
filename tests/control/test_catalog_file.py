"""The catalog's file is synced and checked, and damage and newer releases are refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from headwater.control.catalog import Catalog
from headwater.control.catalog_file import CatalogError, CatalogFile
from headwater.control.catalog_rows import ConsumerRow, StreamRow
from headwater.control.catalog_schema import MIGRATIONS, TABLES, VERSION
from headwater.control.sqlite_file import open_database
from headwater.errors import DiskError
from headwater.fence import NO_FENCE


def row(name: str) -> StreamRow:
    return StreamRow("$G", name, '{"name":"x"}', 17, f"id-$G-{name}", name)


def opened(path: Path) -> CatalogFile:
    return CatalogFile(path, NO_FENCE, require_new=lambda: None, before_change=lambda: None)


def test_a_block_that_raises_changes_nothing(tmp_path: Path) -> None:
    file = opened(tmp_path / "catalog.db")

    def change() -> None:
        with file.transaction() as db:
            db.execute(*TABLES.put("streams", row("a").values))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        change()
    assert file.rows("streams") == []
    file.close()


def test_the_row_of_a_refused_change_is_removed_with_the_next_one(tmp_path: Path) -> None:
    file = opened(tmp_path / "catalog.db")
    with file.transaction() as db:
        db.execute(*TABLES.put("streams", row("a").values))
    file.refuse("DELETE FROM streams WHERE name = ?", ("a",))
    assert file.has_refused
    with file.transaction() as db:
        db.execute(*TABLES.put("streams", row("b").values))
    assert not file.has_refused
    assert [found[1] for found in file.rows("streams")] == ["b"]
    file.close()


def test_a_file_that_must_not_be_created_is_not(tmp_path: Path) -> None:
    def refuse() -> None:
        raise CatalogError("there are streams")

    with pytest.raises(CatalogError, match="there are streams"):
        CatalogFile(tmp_path / "catalog.db", NO_FENCE, require_new=refuse, before_change=lambda: None)
    assert list(tmp_path.iterdir()) == []


def test_commits_are_synced_and_readers_do_not_block_the_writer(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    assert catalog._file._db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert catalog._file._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_catalog_of_a_newer_release_is_refused_by_name_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    Catalog(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(CatalogError, match=rf"has version {VERSION + 1}.*knows up to {VERSION}.*newer"):
        Catalog(path)
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (VERSION + 1,)


def test_a_file_that_is_no_catalog_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    path.write_bytes(b"this is no database, whatever its name says" * 100)
    with pytest.raises(CatalogError, match=r"cannot open the catalog .*catalog\.db"):
        Catalog(path)


def test_a_full_disk_is_not_taken_for_a_damaged_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> sqlite3.Connection:
        db = open_database(path)
        db.execute("PRAGMA max_page_count = 1")
        return db

    monkeypatch.setattr("headwater.control.catalog_file.open_database", full)
    with pytest.raises(DiskError, match=r"cannot write .*catalog.db: the disk is full"):
        Catalog(tmp_path / "catalog.db")
    monkeypatch.undo()
    assert Catalog(tmp_path / "catalog.db").store_id


def test_a_catalog_of_version_0_1_0_gets_checksums(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with sqlite3.connect(path) as db:
        for script in MIGRATIONS[:2]:
            db.executescript(script)
        db.execute("INSERT INTO store VALUES ('id', 'abc')")
        db.execute("INSERT INTO streams VALUES ('$G', 'a', '{}', 17, 'id-$G-a', 'a')")
        db.execute("INSERT INTO consumers VALUES ('$G', 'a', 'c', '{}', 5)")
        db.execute("PRAGMA user_version = 2")
    catalog = Catalog(path)
    assert catalog.store_id == "abc"
    assert catalog.streams("$G") == [StreamRow("$G", "a", "{}", 17, "id-$G-a", "a", 1)]
    assert catalog.consumers("$G", "a") == [ConsumerRow("$G", "a", "c", "{}", 5)]


def test_a_changed_row_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    catalog = Catalog(path)
    catalog.create(row("a"))
    catalog.close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE streams SET config = '{}'")
    with pytest.raises(
        CatalogError, match=r"a row of streams \('\$G', 'a'\) is not what was written.*store repair"
    ):
        Catalog(path)


def test_a_version_below_zero_is_damage(tmp_path: Path) -> None:
    Catalog(tmp_path / "catalog.db").close()
    with sqlite3.connect(tmp_path / "catalog.db") as db:
        db.execute("PRAGMA user_version = -5")
    with pytest.raises(CatalogError, match="is damaged: it has version -5"):
        Catalog(tmp_path / "catalog.db")
