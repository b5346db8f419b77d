"""The breakable disk keeps what was synced, and loses what a real one may lose."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.errors import DiskError
from simulation.disks import BreakableDisk, Fault, PowerCut


def outcomes(root: Path, act: Callable[[BreakableDisk, Path], None]) -> set[tuple[tuple[str, bytes], ...]]:
    """Return what power cuts after the act leave, over many of them."""
    found = set()
    for seed in range(80):
        directory = root / str(seed)
        directory.mkdir()
        disk = BreakableDisk(directory, seed)
        act(disk, directory)
        disk.power_cut(random.Random(seed))
        files = sorted(path for path in directory.rglob("*") if path.is_file())
        found.add(tuple((str(path.relative_to(directory)), path.read_bytes()) for path in files))
    return found


def appended(disk: BreakableDisk, path: Path, content: bytes, sync: bool = True) -> None:
    file = disk.open_append(path)
    file.write([content])
    if sync:
        file.sync()
    file.close()


def test_what_was_synced_survives(tmp_path: Path) -> None:
    def act(disk: BreakableDisk, root: Path) -> None:
        disk.mkdir(root / "d")
        appended(disk, root / "d" / "f", b"content")
        disk.sync_dir(root / "d")

    assert outcomes(tmp_path, act) == {(("d/f", b"content"),)}


def test_an_entry_that_was_not_synced_may_vanish(tmp_path: Path) -> None:
    assert outcomes(tmp_path, lambda disk, root: appended(disk, root / "f", b"content")) == {
        (),
        (("f", b"content"),),
    }


def test_bytes_that_were_not_synced_may_be_lost_or_torn_but_never_the_synced_ones(tmp_path: Path) -> None:
    def act(disk: BreakableDisk, root: Path) -> None:
        appended(disk, root / "f", b"synced")
        disk.sync_dir(root)
        appended(disk, root / "f", b" and a tail", sync=False)

    found = [content for [(_, content)] in outcomes(tmp_path, act)]
    assert all(content.startswith(b"synced") for content in found)
    assert {b"synced", b"synced and a tail"} <= set(found)
    assert any(not b"synced and a tail".startswith(content) for content in found), "some of it is garbage"


def test_a_rename_that_was_not_synced_may_be_undone_but_never_halved(tmp_path: Path) -> None:
    def act(disk: BreakableDisk, root: Path) -> None:
        appended(disk, root / "old", b"content")
        appended(disk, root / "new", b"before")
        disk.sync_dir(root)
        disk.rename(root / "old", root / "new")

    assert outcomes(tmp_path, act) == {
        (("new", b"before"), ("old", b"content")),
        (("new", b"content"),),
    }


def test_a_removal_that_was_not_synced_may_be_undone(tmp_path: Path) -> None:
    def act(disk: BreakableDisk, root: Path) -> None:
        appended(disk, root / "f", b"content")
        disk.sync_dir(root)
        disk.remove(root / "f")

    assert outcomes(tmp_path, act) == {(), (("f", b"content"),)}


def test_a_cut_that_was_not_synced_may_be_undone(tmp_path: Path) -> None:
    def act(disk: BreakableDisk, root: Path) -> None:
        appended(disk, root / "f", b"content")
        disk.sync_dir(root)
        disk.open_append(root / "f").truncate(3)

    assert outcomes(tmp_path, act) == {(("f", b"con"),), (("f", b"content"),)}


def test_an_atomic_write_is_there_whole(tmp_path: Path) -> None:
    def act(disk: BreakableDisk, root: Path) -> None:
        disk.write_atomic(root / "f", b"first")
        disk.write_atomic(root / "f", b"second")

    assert outcomes(tmp_path, act) == {(("f", b"second"),)}


def test_files_that_others_write_survive_once_they_and_their_directory_are_synced(tmp_path: Path) -> None:
    def act(disk: BreakableDisk, root: Path) -> None:
        (root / "table").mkdir()
        (root / "table" / "kept").write_bytes(b"content")
        (root / "table" / "loose").write_bytes(b"content")
        disk.sync_file(root / "table" / "kept")
        disk.sync_dir(root / "table")
        disk.sync_dir(root)

    found = outcomes(tmp_path, act)
    assert all(("table/kept", b"content") in files for files in found)
    assert {dict(files)["table/loose"] for files in found} > {b"", b"content"}


def test_a_directory_that_was_not_synced_may_vanish_with_all_in_it(tmp_path: Path) -> None:
    def act(disk: BreakableDisk, root: Path) -> None:
        (root / "d").mkdir()
        appended(disk, root / "d" / "f", b"content")
        disk.sync_dir(root / "d")

    assert outcomes(tmp_path, act) == {(), (("d/f", b"content"),)}


def test_a_failed_sync_takes_its_bytes_back_even_if_the_next_one_succeeds(tmp_path: Path) -> None:
    def act(disk: BreakableDisk, root: Path) -> None:
        file = disk.open_append(root / "f")
        disk.sync_dir(root)
        file.write([b"lost"])
        disk.break_at(1, Fault.REFUSED, "sync")
        with pytest.raises(DiskError):
            file.sync()
        assert disk.read_all(root / "f") == b"lost"
        file.write([b"kept"])
        file.sync()

    assert outcomes(tmp_path, act) == {(("f", b"\0\0\0\0kept"),)}


def test_uncache_shows_what_a_failed_sync_took_back(tmp_path: Path) -> None:
    disk = BreakableDisk(tmp_path)
    file = disk.open_append(tmp_path / "f")
    file.write([b"lost"])
    disk.break_at(1, Fault.REFUSED, "sync")
    with pytest.raises(DiskError):
        file.sync()
    file.write([b"kept"])
    disk.uncache(tmp_path / "f")
    assert disk.read_all(tmp_path / "f") == b"\0\0\0\0kept"


def test_a_torn_write_leaves_a_first_part(tmp_path: Path) -> None:
    left = set()
    for seed in range(30):
        disk = BreakableDisk(tmp_path, seed)
        disk.remove(tmp_path / "f")
        file = disk.open_append(tmp_path / "f")
        disk.break_at(1, Fault.TORN, "write")
        with pytest.raises(DiskError):
            file.write([b"ab", b"cd"])
        left.add((tmp_path / "f").read_bytes())
    assert left == {b"", b"a", b"ab", b"abc", b"abcd"}


def test_a_full_disk_refuses_what_needs_space_and_nothing_else(tmp_path: Path) -> None:
    disk = BreakableDisk(tmp_path)
    file = disk.open_append(tmp_path / "f")
    file.write([b"before"])
    disk.break_always(Fault.FULL)
    growing: list[Callable[[], None]] = [
        lambda: file.write([b"more"]),
        lambda: disk.write_atomic(tmp_path / "g", b"more"),
        lambda: disk.mkdir(tmp_path / "d"),
    ]
    for needs_space in growing:
        with pytest.raises(DiskError) as refused:
            needs_space()
        assert refused.value.full
    file.sync()
    file.truncate(3)
    assert disk.read_all(tmp_path / "f") == b"bef"
    disk.remove(tmp_path / "f")
    disk.heal()
    disk.mkdir(tmp_path / "d")


def test_a_late_failure_is_done_and_reported(tmp_path: Path) -> None:
    disk = BreakableDisk(tmp_path)
    disk.break_at(1, Fault.LATE)
    with pytest.raises(DiskError):
        disk.open_append(tmp_path / "f")
    assert disk.list(tmp_path) == ["f"]
    assert disk.history == ["open f", f"list {tmp_path.name}"]
    assert disk.operations == 2


def test_nothing_continues_after_a_power_cut_until_the_disk_is_started_again(tmp_path: Path) -> None:
    disk = BreakableDisk(tmp_path)
    disk.break_at(2, Fault.POWER_CUT)
    file = disk.open_append(tmp_path / "f")
    for _ in range(2):
        with pytest.raises(PowerCut):
            file.write([b"content"])
    disk.power_cut(random.Random(0))
    disk.write_atomic(tmp_path / "f", b"again")
    assert disk.read_all(tmp_path / "f") == b"again"
