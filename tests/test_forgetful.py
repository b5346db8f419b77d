"""The file system of the power cut tests forgets what was not synced, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from forgetful import forgetful, missing

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


def test_a_cut_leaves_what_was_synced(tmp_path: Path) -> None:
    with forgetful(tmp_path, 1) as disk:
        folder = tmp_path / "disk"
        (folder / "a").mkdir()
        (folder / "a" / "lost").write_bytes(b"x" * 10)
        with (folder / "a" / "kept").open("wb", buffering=0) as file:
            file.write(b"synced")
            os.fsync(file.fileno())
            file.write(b" not synced")
        os.rename(folder / "a" / "kept", folder / "a" / "renamed")
        assert (folder / "a" / "renamed").read_bytes() == b"synced not synced"
        disk.cut()
        disk.start(2)
        assert sorted(path.name for path in (folder / "a").iterdir()) == ["kept", "lost"]
        assert b"synced not synced".startswith((folder / "a" / "kept").read_bytes())
        assert (folder / "a" / "kept").read_bytes().startswith(b"synced")
        assert len((folder / "a" / "lost").read_bytes()) < 10


def test_a_write_through_o_sync_is_kept_with_the_names_before_it(tmp_path: Path) -> None:
    with forgetful(tmp_path, 1) as disk:
        folder = tmp_path / "disk"
        (folder / "old").write_bytes(b"")
        (folder / "old").rename(folder / "new")
        handle = os.open(folder / "log", os.O_CREAT | os.O_WRONLY | os.O_SYNC)
        os.write(handle, b"record")
        os.close(handle)
        (folder / "new").unlink()
        disk.cut()
        disk.start(2)
        assert sorted(path.name for path in folder.iterdir()) == ["log", "new"]
        assert (folder / "log").read_bytes() == b"record"
