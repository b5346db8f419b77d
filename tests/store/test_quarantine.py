"""What a repair removes is kept under the same path."""

from __future__ import annotations

from pathlib import Path

from headwater.control import declaration
from headwater.disk import RealDisk
from headwater.store.quarantine import Quarantine

DISK = RealDisk(sync=False)


def test_a_file_and_a_folder_are_kept_under_their_paths(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"1")
    (tmp_path / "one").write_bytes(b"2")
    quarantine = Quarantine(tmp_path, DISK)
    for path in ("a/b", "one", "nothing"):
        quarantine.take(tmp_path / path)
    assert (quarantine.folder / "a" / "b" / "file").read_bytes() == b"1"
    assert (quarantine.folder / "one").read_bytes() == b"2"
    assert quarantine.moved == [tmp_path / "a" / "b", tmp_path / "one"]
    assert not (tmp_path / "a" / "b").exists()
    assert list(declaration.homes(DISK, tmp_path)) == []


def test_a_dry_run_moves_nothing(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"2")
    quarantine = Quarantine(tmp_path, DISK, dry_run=True)
    quarantine.take(tmp_path / "one")
    assert quarantine.moved == [tmp_path / "one"]
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_a_copy_leaves_the_folder_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "a" / "log").mkdir(parents=True)
    (tmp_path / "a" / "log" / "file").write_bytes(b"1")
    quarantine = Quarantine(tmp_path, DISK)
    quarantine.copy(tmp_path / "a" / "log")
    assert (quarantine.folder / "a" / "log" / "file").read_bytes() == b"1"
    assert (tmp_path / "a" / "log" / "file").read_bytes() == b"1"


def test_a_copied_folder_is_durable_before_the_original_may_go(tmp_path: Path) -> None:
    synced: set[Path] = set()

    class Noting(RealDisk):
        def sync_file(self, path: Path) -> None:
            synced.add(path)

        def sync_dir(self, path: Path) -> None:
            synced.add(path)

    (tmp_path / "a" / "log" / "older").mkdir(parents=True)
    for name in ("one", "older/two"):
        (tmp_path / "a" / "log" / name).write_bytes(b"x")
    quarantine = Quarantine(tmp_path, Noting())
    quarantine.copy(tmp_path / "a" / "log")
    kept = quarantine.folder / "a"
    assert synced >= {kept, kept / "log", kept / "log/one", kept / "log/older", kept / "log/older/two"}
