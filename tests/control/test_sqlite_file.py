"""Sqlite files are opened as their file system allows."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from headwater.control import sqlite_file
from headwater.control.sqlite_file import on_network, open_database
from headwater.control.wal_file import wal_path
from headwater.disk import RealDisk
from headwater.errors import DiskError

MOUNTS = """\
25 1 254:0 / / rw shared:1 - ext4 /dev/vda rw
40 25 0:50 / /srv/lake rw - nfs4 server:/lake rw,vers=4.2
41 40 0:51 / /srv/lake/local\\040disk rw - xfs /dev/vdb rw
42 25 0:52 / /mnt/share rw - cifs //server/share rw
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/srv/lake/catalog.db", True),
        ("/srv/lake/a/b/catalog.db", True),
        ("/srv/lake2/catalog.db", False),
        ("/srv/lake/local disk/catalog.db", False),
        ("/mnt/share/x/catalog.db", True),
        ("/var/catalog.db", False),
    ],
)
def test_network_file_systems_are_known_by_their_mounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, expected: bool
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    monkeypatch.setattr(sqlite_file, "_MOUNTS", mounts)
    assert on_network(Path(path)) is expected


def test_where_nothing_is_known_of_mounts_a_file_is_local(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "_MOUNTS", tmp_path / "no such file")
    assert not on_network(tmp_path / "catalog.db")


def test_on_a_local_disk_others_may_read_meanwhile(tmp_path: Path) -> None:
    db = open_database(tmp_path / "a.db")
    db.execute("CREATE TABLE t (x)")
    db.execute("INSERT INTO t VALUES (1)")
    with sqlite3.connect(f"file:{tmp_path / 'a.db'}?mode=ro", uri=True) as other:
        assert other.execute("SELECT x FROM t").fetchone() == (1,)
    other.close()
    db.close()


def test_on_a_network_file_system_no_memory_is_shared_and_no_other_process_has_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "on_network", lambda path: True)
    db = open_database(tmp_path / "a.db")
    db.execute("CREATE TABLE t (x)")
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert not (tmp_path / "a.db-shm").exists()
    other = sqlite3.connect(tmp_path / "a.db", timeout=0.1)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("SELECT * FROM t")
    other.close()
    db.close()
    db = open_database(tmp_path / "a.db")
    assert db.execute("SELECT count(*) FROM t").fetchone() == (0,)
    db.close()


def left_by_a_kill(tmp_path: Path) -> Path:
    """Return a file whose process was killed after a transaction."""
    db = open_database(tmp_path / "a.db")
    db.execute("CREATE TABLE t (x)")
    db.execute("INSERT INTO t VALUES (1)")
    (tmp_path / "killed").mkdir()
    for name in ("a.db", "a.db-wal"):
        shutil.copy(tmp_path / name, tmp_path / "killed" / name)
    db.close()
    return tmp_path / "killed" / "a.db"


def test_a_write_ahead_log_that_a_kill_left_is_written_again(tmp_path: Path) -> None:
    path = left_by_a_kill(tmp_path)
    with open(wal_path(path), "rb") as before:
        db = open_database(path)
        assert not os.path.samestat(os.fstat(before.fileno()), wal_path(path).stat())
        assert db.execute("SELECT x FROM t").fetchone() == (1,)
        written = wal_path(path).stat().st_ino
        open_database(path).close()
        assert wal_path(path).stat().st_ino == written, "another process has it open"
        db.close()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_only_a_full_disk_may_leave_a_write_ahead_log_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = left_by_a_kill(tmp_path)

    def refuse(_: RealDisk, refused: Path, data: bytes) -> None:
        raise DiskError(refused, "write", number)

    monkeypatch.setattr(RealDisk, "write_atomic", refuse)
    if number == errno.EIO:
        with pytest.raises(DiskError):
            open_database(path)
        return
    db = open_database(path)
    assert db.execute("SELECT x FROM t").fetchone() == (1,)
    db.close()
