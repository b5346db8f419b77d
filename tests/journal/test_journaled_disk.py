"""A disk whose files are in a journal: the contract of disks is tested in tests/contracts/test_disk.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakable_objects import BreakableObjects, ObjectFault
from headwater.errors import DiskError
from headwater.journal import shipper
from headwater.journal.object_journal import ObjectJournal
from headwater.log import Log
from headwater.log.batch import Batch, encode
from journals import Head, folder, folder_journal


def batch(seq: int, data: bytes) -> bytes:
    return encode(Batch(seq, [seq], [b"s"], [b""], [data], 1, seq))


def test_every_change_is_in_the_journal_once_it_is_synced(tmp_path: Path) -> None:
    head = Head(folder_journal(tmp_path / "journal"), tmp_path / "a")
    home = head.store / "acc" / "A"
    head.disk.mkdir(home)
    head.disk.write_atomic(home / "large", bytes(range(256)) * 8000)
    file = head.disk.create_append(home / "log")
    file.write([b"one", b"two"])
    file.sync()
    file.truncate(4)
    file.write([b"!"])
    file.sync()
    file.write([b"never synced"])
    file.close()
    head.disk.rename(home, head.store / "acc" / "B")
    head.disk.sync_dir(home.parent)
    found = Head(folder_journal(tmp_path / "journal"), tmp_path / "b").files()
    assert found == {"acc/B/large": bytes(range(256)) * 8000, "acc/B/log": b"onet!"}


def test_files_outside_the_head_are_not_shipped(tmp_path: Path) -> None:
    head = Head(folder_journal(tmp_path / "journal"), tmp_path / "a")
    home = head.store / "acc" / "A"
    for path in (home / "table" / "x", home / "staging" / "x", head.store / ".tables" / "x", tmp_path / "t"):
        head.disk.mkdir(path.parent)
        head.disk.write_atomic(path, b"x")
        head.disk.sync_dir(path.parent)
        assert head.disk.relative(path) is None
    head.disk.write_atomic(home / "table-file", b"x")
    assert Head(folder_journal(tmp_path / "journal"), tmp_path / "b").files() == {"acc/A/table-file": b"x"}


def test_a_log_that_is_rolled_back_after_an_outage_is_the_same_on_the_next_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = BreakableObjects(folder(tmp_path / "journal"))
    head = Head(ObjectJournal(objects), tmp_path / "a")
    log = Log.open(head.store / "acc" / "A" / "log", head.disk)
    log.append([batch(1, b"kept")])
    log.sync()
    log.append([batch(2, b"refused")])
    objects.break_always(ObjectFault.REFUSED)
    with monkeypatch.context() as patch:
        patch.setattr(shipper, "PATIENCE_S", 0.2)
        with pytest.raises(DiskError):
            log.sync()
        with pytest.raises(DiskError):
            log.rollback()
    objects.heal()
    log.rollback()
    log.append([batch(2, b"after it")])
    log.sync()
    log.append([batch(3, b"never synced")])
    other = Head(folder_journal(tmp_path / "journal"), tmp_path / "b")
    found = Log.open(other.store / "acc" / "A" / "log", other.disk)
    assert [stored.datas for _, stored in found.replay()] == [[b"kept"], [b"after it"]]


def test_a_truncated_file_can_be_written_again_to_the_journal(tmp_path: Path) -> None:
    head = Head(folder_journal(tmp_path / "journal"), tmp_path / "a")
    file = head.disk.create_append(head.store / "f")
    file.write([b"12345"])
    file.sync()
    file.truncate(2)
    assert head.disk.rewrite("f")
    head.disk.flush()
    assert not head.disk.rewrite("missing")
    assert Head(folder_journal(tmp_path / "journal"), tmp_path / "b").files() == {"f": b"12"}
