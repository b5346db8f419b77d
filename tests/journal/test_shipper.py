"""Shipping: in order, in groups, through outages, with trims, and ended by the takeover of another engine."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from breakable_objects import BreakableObjects, ObjectFault
from headwater.errors import DiskError, FencedError
from headwater.journal import shipper as shipping
from headwater.journal import takeover
from headwater.journal.object_journal import ObjectJournal
from headwater.journal.record import RecordKind, decode
from journals import Head, eventually, folder, folder_journal, taken_over
from rounds import choose_seed


def test_a_change_that_was_refused_is_shipped_when_the_journal_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = BreakableObjects(folder(tmp_path / "journal"))
    head = Head(ObjectJournal(objects), tmp_path / "a")
    monkeypatch.setattr(shipping, "PATIENCE_S", 0.2)
    objects.break_always(ObjectFault.REFUSED)
    with pytest.raises(DiskError, match=r"cannot be reached|does not answer"):
        head.disk.write_atomic(head.store / "x", b"1")
    assert head.shipper.is_failing
    assert head.shipper.unshipped_bytes > 0
    objects.heal()
    monkeypatch.undo()
    head.disk.write_atomic(head.store / "y", b"2")
    eventually(lambda: _require(head.shipper.unshipped_bytes == 0))
    assert not head.shipper.is_failing
    assert head.shipper.journal_bytes > 0
    assert Head(folder_journal(tmp_path / "journal"), tmp_path / "b").files() == {"x": b"1", "y": b"2"}
    head.shipper.close()


def test_an_engine_without_changes_shows_that_it_is_there_and_learns_that_it_is_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "BEAT_S", 0.02)
    journal = folder_journal(tmp_path / "journal")
    head = Head(folder_journal(tmp_path / "journal"), tmp_path / "a")
    eventually(lambda: _require(journal.last() > 5))
    (tmp_path / "b").mkdir()
    taken_over(journal, tmp_path / "b")
    eventually(lambda: _require(bool(head.lost)))
    with pytest.raises(FencedError):
        head.shipper.flush()


def test_an_engine_is_leased_only_while_the_journal_takes_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shipping.LEASE_S < takeover.SILENCE_S, "nobody else may serve while a lease lasts"
    monkeypatch.setattr(shipping, "BEAT_S", 0.02)
    monkeypatch.setattr(shipping, "LEASE_S", 0.3)
    objects = BreakableObjects(folder(tmp_path / "journal"))
    head = Head(ObjectJournal(objects), tmp_path / "a")
    eventually(lambda: _require(head.shipper.is_leased))
    objects.break_always(ObjectFault.REFUSED)
    eventually(lambda: _require(not head.shipper.is_leased))
    objects.heal()
    eventually(lambda: _require(head.shipper.is_leased))
    head.shipper.close()


def test_a_closed_head_leaves_a_last_record(tmp_path: Path) -> None:
    journal = folder_journal(tmp_path / "journal")
    head = Head(folder_journal(tmp_path / "journal"), tmp_path / "a")
    head.disk.write_atomic(head.store / "x", b"1")
    head.shipper.close()
    last = journal.last()
    found = journal.get(last)
    assert found is not None
    assert decode(found, "", last).kind == RecordKind.CLOSED


def test_the_journal_stays_small_and_the_store_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("TRIM_RECORDS", 4),
        ("SLACK_RECORDS", 8),
        ("SLACK_BYTES", 2000),
        ("BEAT_S", 0.01),
        ("REWRITES", 2),
    ):
        monkeypatch.setattr(shipping, name, value)
    chance = random.Random(choose_seed())
    head = Head(folder_journal(tmp_path / "journal"), tmp_path / "a")
    for number in range(12):
        head.disk.mkdir(head.store / "acc" / f".new{number}")
        head.disk.write_atomic(head.store / "acc" / f".new{number}" / "id", b"%d" % number)
        head.disk.rename(head.store / "acc" / f".new{number}", head.store / "acc" / f"s{number}")
    for number in range(150):
        file = head.disk.create_append(head.store / "acc" / f"s{number % 12}" / f"{number}.log")
        for _ in range(chance.randrange(4)):
            file.write([chance.randbytes(chance.randrange(200))])
            file.sync()
        file.close()
        if number >= 20:
            head.disk.remove(head.store / "acc" / f"s{(number - 20) % 12}" / f"{number - 20}.log")
    head.disk.sync_dir(head.store)
    journal = folder_journal(tmp_path / "journal")
    eventually(lambda: _require(len(list((tmp_path / "journal" / "records").iterdir())) < 80))
    copy = Head(journal, tmp_path / "b")
    assert copy.files() == head.files()
    assert not head.lost or "process" in head.lost[0]
    head.shipper.close()
    copy.shipper.close()


def test_files_whose_records_someone_removed_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "BEAT_S", 0.02)
    monkeypatch.setattr(shipping, "LOOK_S", 0.02)
    head = Head(folder_journal(tmp_path / "journal"), tmp_path / "a")
    for name in ("x", "y"):
        head.disk.write_atomic(head.store / name, name.encode())
    records = tmp_path / "journal" / "records"
    for record in sorted(records.iterdir())[:-1]:
        record.unlink()  # as a rule that expires old objects does
    removed = len(list(records.iterdir()))
    (tmp_path / "b").mkdir()
    eventually(lambda: _require(len(list(records.iterdir())) > removed + 2))
    eventually(lambda: _require(_is_whole(tmp_path / "journal")))
    assert Head(folder_journal(tmp_path / "journal"), tmp_path / "b").files() == {"x": b"x", "y": b"y"}


def _is_whole(path: Path) -> bool:
    journal = folder_journal(path)
    last = journal.last()
    floor = decode(journal.get(last) or b"", "", last).floor
    return all(journal.get(position) is not None for position in range(floor, last + 1))


def test_an_engine_that_ended_is_not_leased(tmp_path: Path) -> None:
    head = Head(folder_journal(tmp_path / "journal"), tmp_path / "a")
    head.disk.write_atomic(head.store / "x", b"1")
    assert head.shipper.is_leased
    head.shipper.close()
    assert not head.shipper.is_leased


def _require(holds: bool) -> None:
    if not holds:
        raise DiskError(Path("later"), "see", 5)
