"""Directories and catalog are read as they are, and compared."""

from __future__ import annotations

from pathlib import Path

from headwater.control import declaration
from headwater.control.catalog import Catalog
from headwater.control.catalog_rows import StreamRow
from headwater.control.declaration import Identity
from headwater.store.finding import Kind
from headwater.store.survey import CatalogView, compare, read_catalog, read_homes
from store.stores import DISK


def row(name: str, identity: str, directory: str = "") -> StreamRow:
    return StreamRow("A", name, "{}", 5, identity, directory or name)


def home(store: Path, name: str, identity: str) -> Path:
    path = store / "A" / name
    path.mkdir(parents=True)
    declaration.write_identity(DISK, path, Identity(identity, "A", name))
    return path


def test_what_a_directory_says_is_read_and_damage_is_kept(tmp_path: Path) -> None:
    home(tmp_path, "one", "1")
    (home(tmp_path, "two", "2") / "identity.json").write_bytes(b"{")
    one, two = read_homes(DISK, tmp_path)
    assert (one.id, one.name, one.account, one.damage) == ("1", "one", "A", ())
    assert (two.id, two.name) == ("", "two")
    assert [found.kind for found in two.damage] == [Kind.IDENTITY]


def test_a_catalog_is_read_without_being_changed(tmp_path: Path) -> None:
    assert read_catalog(tmp_path).problem == "it is missing or empty"
    catalog = Catalog(tmp_path / "catalog.db")
    catalog.create(row("one", "1"))
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.suffix != ".db-shm"}
    view = read_catalog(tmp_path)
    assert (view.rows, view.store_id, view.problem) == ([row("one", "1")], catalog.store_id, "")
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    catalog.close()


def test_orphans_missing_and_moved_directories_are_distinguished(tmp_path: Path) -> None:
    home(tmp_path, "kept", "1")
    home(tmp_path, "moved", "2")
    home(tmp_path, "orphan", "4")
    (home(tmp_path, "new", "5") / "unfinished").touch()
    home(tmp_path, "deleted", "6")
    rows = [row("kept", "1"), row("was", "2"), row("gone", "3")]
    found = compare(tmp_path, read_homes(DISK, tmp_path), CatalogView("id", rows, deletions={"6"}))
    assert [(each.kind, each.stream) for each in found] == [
        (Kind.MOVED, "A/was"),
        (Kind.NO_HOME, "A/gone"),
        (Kind.ORPHAN, "A/orphan"),
    ]
