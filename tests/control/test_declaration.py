"""Declarations are stored next to the data with a checksum, and read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.control import declaration
from headwater.control.declaration import ConsumerDeclaration, ConsumerFile, Declaration, Identity
from headwater.disk import RealDisk
from headwater.model.sealed import SealError, seal

DISK = RealDisk(sync=False)
DECLARED = Declaration(
    store="s", identity="1", account="$G", name="a", directory="a", config="{}", created_ns=5, revision=3
)


def consumer(revision: int) -> ConsumerDeclaration:
    return ConsumerDeclaration(identity="1", name="c d", config="{}", created_ns=5, revision=revision)


def test_identity_and_declaration_are_read_back(tmp_path: Path) -> None:
    assert declaration.read_identity(DISK, tmp_path) is None
    assert declaration.read_declaration(DISK, tmp_path) is None
    declaration.write_identity(DISK, tmp_path, Identity("1", "$G", "a"))
    declaration.write_declaration(DISK, tmp_path, DECLARED)
    assert declaration.read_identity(DISK, tmp_path) == Identity("1", "$G", "a")
    assert declaration.read_declaration(DISK, tmp_path) == DECLARED
    assert declaration.is_sealed(DISK, tmp_path)


def test_every_flipped_bit_of_an_identity_is_refused_or_makes_no_difference(tmp_path: Path) -> None:
    declaration.write_identity(DISK, tmp_path, Identity("1f", "$G", "a"))
    path = tmp_path / declaration.IDENTITY
    whole = path.read_bytes()
    for at in range(len(whole)):
        for bit in range(8):
            flipped = bytearray(whole)
            flipped[at] ^= 1 << bit
            path.write_bytes(flipped)
            try:
                assert declaration.read_identity(DISK, tmp_path) == Identity("1f", "$G", "a")
            except SealError:
                pass


def test_a_consumer_has_one_file_which_names_its_revision(tmp_path: Path) -> None:
    declaration.write_consumer(DISK, tmp_path, consumer(1), None)
    declaration.write_consumer(DISK, tmp_path, consumer(2), ConsumerFile.of("c d", 5, 1))
    (file,) = declaration.consumer_files(DISK, tmp_path)
    assert str(file) == "c~20d.5.2.json"
    assert declaration.read_consumer(DISK, tmp_path, file) == consumer(2)
    declaration.remove_consumers(DISK, tmp_path, [file])
    assert declaration.consumer_files(DISK, tmp_path) == []


def test_of_two_files_of_a_consumer_the_newer_counts() -> None:
    files = [ConsumerFile("c", 5, 10), ConsumerFile("c", 5, 9), ConsumerFile("c", 4, 11)]
    assert declaration.newest(files) == {"c": ConsumerFile("c", 5, 10)}


def test_every_stream_of_a_store_is_found_and_nothing_else(tmp_path: Path) -> None:
    for home in ("A/one", "B/two"):
        (tmp_path / home).mkdir(parents=True)
        declaration.write_identity(DISK, tmp_path / home, Identity("1", "A", "one"))
    (tmp_path / "B" / "three" / "log").mkdir(parents=True)
    (tmp_path / "B" / ".trash-1" / "log").mkdir(parents=True)
    (tmp_path / ".quarantine" / "x" / "log").mkdir(parents=True)
    (tmp_path / "B" / "empty").mkdir()
    (tmp_path / "catalog.db").touch()
    found = [home.relative_to(tmp_path).as_posix() for home in declaration.homes(DISK, tmp_path)]
    assert found == ["A/one", "B/three", "B/two"]


def test_a_declaration_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    declaration.write_declaration(DISK, tmp_path, DECLARED)
    path = tmp_path / declaration.DECLARED
    path.write_bytes(seal(DECLARED, 99))
    with pytest.raises(SealError, match="newer release"):
        declaration.read_declaration(DISK, tmp_path)
