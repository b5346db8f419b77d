"""The catalog keeps what it was told, whole, across restarts, and refuses what it does not understand."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.control.catalog import VERSION, Catalog, CatalogError, StreamRow


def row(name: str, *, account: str = "$G", identity: str = "") -> StreamRow:
    return StreamRow(account, name, '{"name":"x"}', 17, identity or f"id-{account}-{name}", name)


def test_a_created_stream_is_there_after_a_restart(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    catalog.create(row("b"))
    catalog.create(row("a"))
    catalog.close()
    assert Catalog(tmp_path / "catalog.db").streams("$G") == [row("a"), row("b")]


def test_an_update_replaces_the_config_alone(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    catalog.create(row("a"))
    catalog.update("$G", "a", "{}")
    assert catalog.streams("$G") == [StreamRow("$G", "a", "{}", 17, "id-$G-a", "a")]


def test_a_deleted_stream_is_gone_and_its_name_is_free(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    catalog.create(row("a"))
    catalog.delete("$G", "a")
    catalog.delete("$G", "a")
    assert catalog.streams("$G") == []
    catalog.create(row("a", identity="second"))


def test_accounts_do_not_see_each_other(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    catalog.create(row("a", account="A"))
    catalog.create(row("a", account="B"))
    catalog.delete("A", "a")
    assert [r.account for r in catalog.streams("B")] == ["B"]
    assert catalog.streams("A") == []


def test_a_second_stream_of_one_name_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    catalog.create(row("a"))
    with pytest.raises(sqlite3.IntegrityError):
        catalog.create(row("a", identity="other"))
    assert catalog.streams("$G") == [row("a")]
    catalog.create(row("b"))


def test_many_threads_write_without_losing_a_row(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: catalog.create(row(f"s{n:03}")), range(64)))
    assert [r.name for r in catalog.streams("$G")] == [f"s{n:03}" for n in range(64)]


def test_the_store_id_stays(tmp_path: Path) -> None:
    first = Catalog(tmp_path / "catalog.db")
    store_id = first.store_id
    first.close()
    assert Catalog(tmp_path / "catalog.db").store_id == store_id
    assert Catalog(tmp_path / "other.db").store_id != store_id


def test_commits_are_synced_and_readers_do_not_block_the_writer(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    assert catalog._db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert catalog._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


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
    with pytest.raises(CatalogError, match=r"catalog\.db cannot be opened"):
        Catalog(path)
