"""Directories are made whole, recognised by their identity, and swept when nobody declares them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.control.catalog import StreamRow
from headwater.control.directories import Directories, IdentityError
from headwater.disk import RealDisk


def row(name: str, identity: str, directory: str = "") -> StreamRow:
    return StreamRow("$G", name, "{}", 1, identity, directory or name)


@pytest.fixture
def directories(tmp_path: Path) -> Directories:
    return Directories(tmp_path / "$G", RealDisk(sync=False))


def test_a_made_directory_is_found_again(directories: Directories) -> None:
    path = directories.make(row("a", "1"))
    assert path == directories.find(row("a", "1")) == directories.root / "a"


def test_a_directory_of_another_identity_or_none_is_not_taken(directories: Directories) -> None:
    directories.make(row("a", "1"))
    with pytest.raises(IdentityError, match="belongs to 'a', identity 1"):
        directories.find(row("a", "2"))
    with pytest.raises(IdentityError, match="is missing"):
        directories.find(row("b", "2"))


def test_a_name_that_is_taken_by_a_stranger_is_left_alone(directories: Directories) -> None:
    (directories.root / "a").mkdir()
    (directories.root / "a" / "precious").touch()
    made = directories.make(row("a", "1", directories.free_name("a", "1")))
    assert made.name == "a.1"
    assert directories.sweep({"1"}) == []
    assert (directories.root / "a" / "precious").exists()


def test_what_nobody_declares_is_swept_and_nothing_else(directories: Directories) -> None:
    directories.make(row("kept", "1"))
    directories.make(row("orphan", "2"))
    directories.discard(directories.make(row("deleted", "3")))
    (directories.root / ".new-4").mkdir()
    (directories.root / "stranger").mkdir()
    (directories.root / "note.txt").touch()
    for trash in directories.sweep({"1"}):
        directories.remove(trash)
    assert sorted(p.name for p in directories.root.iterdir()) == ["kept", "note.txt", "stranger"]


def test_names_that_look_like_paths_stay_inside_the_root(directories: Directories) -> None:
    name = directories.free_name("../../x", "1")
    assert directories.make(row("../../x", "1", name)).parent == directories.root
