"""Directories are created completely, recognized by their identity, and removed only on record."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.control.catalog_rows import StreamRow
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
    assert directories.sweep([row("a", "1", made.name)], ()) == ([], [])
    assert (directories.root / "a" / "precious").exists()


def test_only_what_is_recorded_as_deleted_or_unfinished_is_swept(directories: Directories) -> None:
    for name, identity in (("kept", "1"), ("orphan", "2"), ("deleted", "4")):
        directories.finish(directories.make(row(name, identity)))
    directories.discard(directories.make(row("thrown", "3")))
    directories.make(row("unfinished", "5"))
    (directories.root / ".new-6").mkdir()
    (directories.root / "stranger").mkdir()
    (directories.root / "note.txt").touch()
    swept = directories.sweep([row("kept", "1")], {"4"})
    for trash in swept.waiting:
        directories.remove(trash)
    left = sorted(p.name for p in directories.root.iterdir())
    assert left == ["kept", "note.txt", "orphan", "stranger"]
    (orphan,) = swept.orphans
    assert orphan.path.name == "orphan"
    assert orphan.row is not None
    assert (orphan.row.name, orphan.row.identity) == ("orphan", "2")


def test_a_stream_whose_identity_is_damaged_is_an_orphan_and_never_swept(directories: Directories) -> None:
    home = directories.make(row("a", "1"))
    (home / "log").mkdir()
    (home / "identity.json").write_bytes(b"{")
    assert directories.sweep([], {"1"}) == ([], [(home, None)])
    with pytest.raises(IdentityError, match=r"identity.json cannot be read: it is damaged.*store repair"):
        directories.find(row("a", "1"))


def test_an_identity_of_version_0_1_0_is_known(directories: Directories) -> None:
    home = directories.make(row("a", "1"))
    (home / "identity.json").write_bytes(b'{"identity":"1","account":"$G","name":"a","version":1}')
    assert directories.find(row("a", "1")) == home


def test_names_that_look_like_paths_stay_inside_the_root(directories: Directories) -> None:
    name = directories.free_name("../../x", "1")
    assert directories.make(row("../../x", "1", name)).parent == directories.root
