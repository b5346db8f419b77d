"""Tests of private_file: only the owner can read it, and on a full disk the old text is overwritten."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from headwater import private_file
from headwater.errors import DiskError


def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    private_file.write(tmp_path / "a.conf", "one\n")
    assert stat.S_IMODE((tmp_path / "a.conf").stat().st_mode) == 0o600
    assert (tmp_path / "a.conf").read_text().rstrip("\n") == "one"
    assert os.listdir(tmp_path) == ["a.conf"]


def test_a_file_is_replaced_whole_in_a_new_directory(tmp_path: Path) -> None:
    path = tmp_path / "new" / "secret"
    for data in (b"one", b"two"):
        private_file.replace(path, data)
        assert path.read_bytes() == data
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["secret"]


def refuse_new_files(patch: pytest.MonkeyPatch, number: int) -> None:
    """Have a disk that makes files but takes no bytes into them."""
    real = os.open

    def refusing(path: Any, flags: int, *mode: int, **more: Any) -> int:
        if flags & os.O_EXCL:
            raise OSError(number, os.strerror(number), str(path))
        return real(path, flags, *mode, **more)

    patch.setattr(os, "open", refusing)


def test_on_a_full_disk_the_new_text_takes_the_place_of_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.conf"
    private_file.write(path, "one\n")
    blocks = path.stat().st_size
    refuse_new_files(monkeypatch, errno.ENOSPC)
    private_file.write(path, "another text\n" * 20)
    assert path.read_text().rstrip("\n") == ("another text\n" * 20).rstrip("\n")
    assert path.stat().st_size == blocks, "it takes no more room than before"
    assert os.listdir(tmp_path) == ["a.conf"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_what_cannot_be_written_is_an_error_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    refuse_new_files(monkeypatch, number)
    with pytest.raises(DiskError, match="cannot write") as caught:
        private_file.write(tmp_path / "a.conf", "one\n")
    assert caught.value.errno == number
    assert os.listdir(tmp_path) == []


def test_an_error_other_than_a_full_disk_leaves_the_old_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private_file.write(tmp_path / "a.conf", "one\n")
    refuse_new_files(monkeypatch, errno.EIO)
    with pytest.raises(DiskError):
        private_file.write(tmp_path / "a.conf", "two\n")
    assert (tmp_path / "a.conf").read_text().rstrip("\n") == "one"


def test_a_file_that_another_owner_wrote_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "server.conf"
    private_file.write(path, "ours")
    private_file.write(path, "theirs")
    private_file.remove(path, "ours")
    assert path.read_text().strip() == "theirs"
    private_file.remove(path, "theirs")
    assert not path.exists()
    private_file.remove(path, "theirs")
