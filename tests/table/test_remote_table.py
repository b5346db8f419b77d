"""The file that says where a stream's table is."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.disk import RealDisk
from headwater.errors import CorruptionError, DiskError
from headwater.table import Table
from headwater.table.remote_table import RemoteTable, read_remote, write_remote

DISK = RealDisk(sync=False)
REMOTE = RemoteTable(address="s3://lake/prod/$G/A/table", endpoint="http://127.0.0.1:1")


def test_it_says_what_was_written(tmp_path: Path) -> None:
    write_remote(DISK, tmp_path, REMOTE)
    assert read_remote(DISK, tmp_path) == REMOTE
    assert REMOTE.bucket.url == REMOTE.address


def test_a_folder_or_nothing_is_no_remote_table(tmp_path: Path) -> None:
    assert read_remote(DISK, tmp_path) is None
    assert read_remote(DISK, tmp_path / "missing") is None
    (tmp_path / "table").mkdir()
    assert read_remote(DISK, tmp_path) is None


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"version":9,"crc32":"00000000","value":{}}', b"\xff" * 20]
)
def test_a_damaged_or_newer_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "table").write_bytes(content)
    with pytest.raises(CorruptionError, match="table is damaged"):
        read_remote(DISK, tmp_path)


def test_a_release_that_does_not_know_it_cannot_make_its_folder(tmp_path: Path) -> None:
    write_remote(DISK, tmp_path, REMOTE)
    with pytest.raises(DiskError):
        Table.open(tmp_path / "table", DISK)
    assert read_remote(DISK, tmp_path) == REMOTE
