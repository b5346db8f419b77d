"""The real disk keeps the promises of `Disk`, and says in values what it refused."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread

import pytest

from headwater import disk as module
from headwater.disk import IOV_MAX, OPEN_FILES, RealDisk
from headwater.errors import DiskError


@pytest.fixture(params=[True, False], ids=["synced", "unsynced"])
def disk(request: pytest.FixtureRequest) -> RealDisk:
    return RealDisk(sync=request.param)


def test_appended_buffers_lie_one_after_the_other(tmp_path: Path, disk: RealDisk) -> None:
    file = disk.open_append(tmp_path / "f")
    file.write([b"one", b"", b"two"])
    file.write([])
    file.write([b"three"])
    file.sync()
    assert file.size == 11
    file.close()
    assert disk.read_all(tmp_path / "f") == b"onetwothree"


def test_a_file_is_appended_to_where_it_ends(tmp_path: Path, disk: RealDisk) -> None:
    (tmp_path / "f").write_bytes(b"old")
    file = disk.open_append(tmp_path / "f")
    assert file.size == 3
    file.write([b"new"])
    file.truncate(4)
    assert file.size == 4
    file.write([b"!"])
    file.close()
    file.close()
    assert disk.read_all(tmp_path / "f") == b"oldn!"


def test_more_buffers_than_the_system_takes_at_once_are_written(tmp_path: Path, disk: RealDisk) -> None:
    buffers = [b"%d," % n for n in range(3 * IOV_MAX + 5)]
    file = disk.open_append(tmp_path / "f")
    file.write(buffers)
    assert disk.read_all(tmp_path / "f") == b"".join(buffers)
    assert file.size == len(b"".join(buffers))


def test_a_write_that_the_system_takes_in_pieces_is_finished(
    tmp_path: Path, disk: RealDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def writev(fd: int, buffers: Sequence[bytes]) -> int:
        return os.write(fd, b"".join(buffers)[:7])

    monkeypatch.setattr(os, "writev", writev)
    buffers = [b"a" * 5, b"", b"b" * 20, b"c" * 3]
    file = disk.open_append(tmp_path / "f")
    file.write(buffers)
    assert disk.read_all(tmp_path / "f") == b"".join(buffers)
    assert file.size == 28


def test_a_range_is_read_up_to_where_the_file_ends(tmp_path: Path, disk: RealDisk) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    assert disk.read(tmp_path / "f", 2, 3) == b"234"
    assert disk.read(tmp_path / "f", 8, 5) == b"89"
    assert disk.read(tmp_path / "f", 20, 5) == b""
    assert disk.read(tmp_path / "f", 0, 0) == b""
    assert disk.file_size(tmp_path / "f") == 10


def test_a_read_that_the_system_answers_in_pieces_is_finished(
    tmp_path: Path, disk: RealDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, length, offset: real(fd, min(length, 3), offset))
    (tmp_path / "f").write_bytes(b"0123456789")
    assert disk.read(tmp_path / "f", 1, 8) == b"12345678"
    assert disk.read(tmp_path / "f", 1, 80) == b"123456789"


def test_reads_see_what_is_appended_later(tmp_path: Path, disk: RealDisk) -> None:
    file = disk.open_append(tmp_path / "f")
    assert disk.read(tmp_path / "f", 0, 10) == b""
    file.write([b"later"])
    assert disk.read(tmp_path / "f", 0, 10) == b"later"


def test_reads_follow_a_path_to_the_file_that_lies_there_now(tmp_path: Path, disk: RealDisk) -> None:
    path, other = tmp_path / "f", tmp_path / "other"
    path.write_bytes(b"first")
    assert disk.read(path, 0, 10) == b"first"
    disk.write_atomic(path, b"second")
    assert disk.read(path, 0, 10) == b"second"
    other.write_bytes(b"third")
    assert disk.read(other, 0, 10) == b"third"
    disk.rename(other, path)
    assert disk.read(path, 0, 10) == b"third"
    with pytest.raises(DiskError):
        disk.read(other, 0, 10)
    disk.remove(path)
    with pytest.raises(DiskError):
        disk.read(path, 0, 10)
    disk.open_append(path).write([b"fourth"])
    assert disk.read(path, 0, 10) == b"fourth"


def test_reads_do_not_find_a_tree_that_was_removed(tmp_path: Path, disk: RealDisk) -> None:
    path = tmp_path / "stream" / "log" / "f"
    disk.mkdir(path.parent)
    disk.open_append(path).write([b"old"])
    assert disk.read(path, 0, 3) == b"old"
    disk.remove_tree(tmp_path / "stream")
    disk.remove_tree(tmp_path / "stream")
    assert disk.list(tmp_path) == []
    with pytest.raises(DiskError):
        disk.read(path, 0, 3)


def open_files_below(path: Path) -> int:
    links = [os.path.join("/proc/self/fd", fd) for fd in os.listdir("/proc/self/fd")]
    return sum(os.path.realpath(link).startswith(str(path)) for link in links if os.path.exists(link))


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc")
def test_only_so_many_files_are_kept_open(tmp_path: Path, disk: RealDisk) -> None:
    for n in range(3 * OPEN_FILES):
        (tmp_path / str(n)).write_bytes(b"%d" % n)
    for n in range(3 * OPEN_FILES):
        assert disk.read(tmp_path / str(n), 0, 9) == b"%d" % n
    assert open_files_below(tmp_path) == OPEN_FILES


def test_threads_read_their_own_file_while_files_are_closed_and_opened(
    tmp_path: Path, disk: RealDisk
) -> None:
    paths = [tmp_path / str(n) for n in range(2 * OPEN_FILES)]
    for path in paths:
        path.write_bytes(path.name.encode())
    wrong: list[object] = []
    start = Event()

    def read(step: int) -> None:
        start.wait()
        for n in range(3000):
            path = paths[n * step % len(paths)]
            try:
                if (found := disk.read(path, 0, 9)) != path.name.encode():
                    wrong.append(found)
            except DiskError as error:
                wrong.append(error)

    threads = [Thread(target=read, args=(step,)) for step in (1, 3, 7)]
    for thread in threads:
        thread.start()
    start.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_atomic_write_replaces_the_whole_file(tmp_path: Path, disk: RealDisk) -> None:
    disk.write_atomic(tmp_path / "f", b"a long content")
    disk.write_atomic(tmp_path / "f", b"short")
    assert disk.read_all(tmp_path / "f") == b"short"
    assert disk.list(tmp_path) == ["f"]


def test_a_directory_is_made_with_those_above_it(tmp_path: Path, disk: RealDisk) -> None:
    disk.mkdir(tmp_path / "a" / "b" / "c")
    disk.mkdir(tmp_path / "a" / "b" / "c")
    assert disk.list(tmp_path / "a" / "b") == ["c"]


def test_names_are_listed_in_order(tmp_path: Path, disk: RealDisk) -> None:
    for name in ("b", "c", "a"):
        (tmp_path / name).touch()
    assert disk.list(tmp_path) == ["a", "b", "c"]


def test_removing_what_is_not_there_is_fine(tmp_path: Path, disk: RealDisk) -> None:
    disk.remove(tmp_path / "none")
    disk.remove_tree(tmp_path / "none")


def test_a_refusal_says_what_was_refused_and_why(tmp_path: Path, disk: RealDisk) -> None:
    missing = tmp_path / "none"
    for operation in (
        lambda: disk.read(missing, 0, 1),
        lambda: disk.read_all(missing),
        lambda: disk.file_size(missing),
        lambda: disk.rename(missing, tmp_path / "f"),
        lambda: disk.list(missing),
        lambda: disk.open_append(missing / "f"),
        lambda: disk.write_atomic(missing / "f", b""),
    ):
        with pytest.raises(DiskError) as refused:
            operation()
        assert refused.value.errno == errno.ENOENT
        assert missing in (refused.value.path, refused.value.path.parent)
        assert refused.value.retryable
        assert "no such file" in str(refused.value)


def test_a_file_where_a_directory_should_be_is_refused(tmp_path: Path, disk: RealDisk) -> None:
    (tmp_path / "f").touch()
    with pytest.raises(DiskError):
        disk.mkdir(tmp_path / "f")
    with pytest.raises(DiskError):
        disk.mkdir(tmp_path / "f" / "below")


def test_a_full_disk_is_named_in_a_sentence(
    tmp_path: Path, disk: RealDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def writev(fd: int, buffers: Sequence[bytes]) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "writev", writev)
    with pytest.raises(DiskError, match="the disk is full") as refused:
        disk.open_append(tmp_path / "f").write([b"x"])
    assert refused.value.full
    assert refused.value.operation == "write"


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the name of everything that is synced."""
    names: list[str] = []

    def record(fd: int) -> None:
        names.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))

    monkeypatch.setattr(os, "fsync", record)
    monkeypatch.setattr(os, "fdatasync", record)
    return names


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc")
def test_what_must_survive_is_synced_in_order(tmp_path: Path, synced: list[str]) -> None:
    disk = RealDisk()
    disk.mkdir(tmp_path / "a" / "b")
    assert synced == [tmp_path.name, "a"]
    disk.write_atomic(tmp_path / "a" / "f", b"x")
    assert synced[2:] == ["f.tmp", "a"]
    disk.open_append(tmp_path / "a" / "g").sync()
    disk.sync_file(tmp_path / "a" / "f")
    disk.sync_dir(tmp_path / "a" / "b")
    assert synced[4:] == ["g", "f", "b"]


def test_without_sync_nothing_is_synced(tmp_path: Path, synced: list[str]) -> None:
    disk = RealDisk(sync=False)
    disk.mkdir(tmp_path / "a" / "b")
    disk.write_atomic(tmp_path / "a" / "f", b"x")
    disk.open_append(tmp_path / "a" / "g").sync()
    disk.sync_file(tmp_path / "a" / "f")
    disk.sync_dir(tmp_path / "a" / "b")
    disk.uncache(tmp_path / "a" / "f")
    assert synced == []


def test_a_failed_sync_is_refused_with_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(DiskError) as refused:
        RealDisk().open_append(tmp_path / "f").sync()
    assert (refused.value.path, refused.value.operation, refused.value.errno) == (
        tmp_path / "f",
        "sync",
        errno.EIO,
    )


def test_content_is_the_same_after_it_left_the_cache(tmp_path: Path, disk: RealDisk) -> None:
    disk.write_atomic(tmp_path / "f", b"content")
    disk.uncache(tmp_path / "f")
    assert disk.read(tmp_path / "f", 0, 7) == b"content"


@pytest.mark.parametrize("refused", [0, errno.EXDEV, errno.EPERM])
def test_a_link_holds_the_same_even_where_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError(refused, "no links here")

    (tmp_path / "one").write_bytes(b"content")
    if refused:
        monkeypatch.setattr("os.link", refuse)
    RealDisk().link(tmp_path / "one", tmp_path / "two")
    assert (tmp_path / "two").read_bytes() == b"content"
    same = (tmp_path / "one").stat().st_ino == (tmp_path / "two").stat().st_ino
    assert same is not bool(refused)


def test_a_link_that_the_disk_refuses_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DiskError):
        RealDisk().link(tmp_path / "gone", tmp_path / "two")


def test_a_file_that_is_replaced_while_it_is_opened_is_not_kept_open(
    tmp_path: Path, disk: RealDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    real = module._ReadFile

    class ReplacedWhileOpened(real):  # type: ignore[valid-type, misc]
        """An open file, whose path another thread gives to a new file before it is used."""

        def __init__(self, path: Path) -> None:
            super().__init__(path)
            monkeypatch.setattr(module, "_ReadFile", real)
            disk.write_atomic(path, b"new")

    monkeypatch.setattr(module, "_ReadFile", ReplacedWhileOpened)
    assert disk.read(path, 0, 3) == b"old", "the file that was there when it was opened"
    assert disk.read(path, 0, 3) == b"new"
