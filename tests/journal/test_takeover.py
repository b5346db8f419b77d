"""Which engine owns a store: one that is alive, ended or silent; and wrong journals."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.errors import StoreLockedError
from headwater.journal import shipper, takeover
from headwater.journal.appender import JournalFencedError
from headwater.journal.head_journal import HeadJournal, JournalError, UnfitJournalError
from headwater.journal.object_journal import ObjectJournal
from headwater.journal.record import RecordKind, decode
from headwater.journal.takeover import TakenOver, Takeover
from journals import Head, eventually, folder, folder_journal, taken_over


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipper, "BEAT_S", 0.02)
    monkeypatch.setattr(takeover, "LOOK_S", 0.02)


def attempt(journal: HeadJournal, store: Path, expected: str = "") -> Takeover:
    store.mkdir(exist_ok=True)
    return Takeover(journal, store, 0, expected, lambda journal_id: None, lambda: False)


def test_a_store_with_an_owner_that_is_alive_is_in_use(tmp_path: Path) -> None:
    head = Head(folder_journal(tmp_path / "journal"), tmp_path / "a")
    with pytest.raises(StoreLockedError, match=r"is in use by the engine with process id \d+ on "):
        attempt(folder_journal(tmp_path / "journal"), tmp_path / "b").run(None)
    assert not head.lost
    head.shipper.close()


def test_a_standby_waits_and_takes_over_when_the_owner_ends(tmp_path: Path) -> None:
    head = Head(folder_journal(tmp_path / "journal"), tmp_path / "a")
    head.disk.write_atomic(head.store / "x", b"1")
    standby = attempt(folder_journal(tmp_path / "journal"), tmp_path / "b")
    owners: list[str] = []
    epochs: list[int] = []
    waiting = threading.Thread(target=lambda: epochs.append(standby.run(owners.append).appender.epoch))
    waiting.start()
    eventually(lambda: _require(bool(owners)))
    assert not epochs
    head.shipper.close()
    waiting.join(60)
    assert (epochs, len(owners)) == ([2], 1)
    assert (tmp_path / "b" / "x").read_bytes() == b"1"


def test_a_silent_owner_is_fenced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeover, "SILENCE_S", 0.2)
    first = taken_over(folder_journal(tmp_path / "journal"), _made(tmp_path / "a"))
    taken = attempt(folder_journal(tmp_path / "journal"), tmp_path / "b").run(None)
    assert (first.appender.epoch, taken.appender.epoch) == (1, 2)


def test_an_epoch_is_above_that_of_the_directory(tmp_path: Path) -> None:
    journal = folder_journal(tmp_path / "journal")
    taken = Takeover(journal, _made(tmp_path / "a"), 41, "", lambda journal_id: None, lambda: False)
    assert taken.run(None).appender.epoch == 42


def test_an_empty_journal_does_not_replace_a_directory_that_came_from_one(tmp_path: Path) -> None:
    store = _made(tmp_path / "a")
    (store / "catalog.db").write_bytes(b"x")
    with pytest.raises(UnfitJournalError, match="is empty, but"):
        attempt(folder_journal(tmp_path / "journal"), store, "an id").run(None)
    assert (store / "catalog.db").read_bytes() == b"x"


def test_the_journal_of_another_store_is_refused(tmp_path: Path) -> None:
    Head(folder_journal(tmp_path / "journal"), tmp_path / "a").shipper.close()
    store = _made(tmp_path / "b")
    (store / "catalog.db").write_bytes(b"x")
    with pytest.raises(UnfitJournalError, match="belongs to a different store"):
        attempt(folder_journal(tmp_path / "journal"), store, "another id").run(None)
    assert (store / "catalog.db").read_bytes() == b"x"


def test_a_lost_record_is_not_overlooked(tmp_path: Path) -> None:
    head = Head(folder_journal(tmp_path / "journal"), tmp_path / "a")
    head.disk.write_atomic(head.store / "x", b"1")
    head.shipper.close()
    journal = folder_journal(tmp_path / "journal")
    last = journal.last()
    needed = decode(journal.get(last) or b"", "", last).floor
    (tmp_path / "journal" / "records" / f"{needed:020d}").unlink()
    with pytest.raises(JournalError, match=f"position {needed} is missing"):
        taken_over(folder_journal(tmp_path / "journal"), _made(tmp_path / "b"))


class HeldUpJournal(ObjectJournal):
    """A journal to which an engine appends late, as when it was stopped just before."""

    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    def append(self, position: int, record: bytes) -> None:
        """Append after the concurrent change was made."""
        self.meanwhile()
        super().append(position, record)


def trimmed(head: Head, position: int) -> None:
    """Return once the owner has removed the record at a position."""

    def write() -> None:
        head.disk.write_atomic(head.store / "x", b"more")
        _require(folder_journal(head.store.parent / "journal").get(position) is None)

    eventually(write)


def test_a_standby_that_is_held_up_takes_over_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipper, "TRIM_RECORDS", 4)
    head = Head(folder_journal(tmp_path / "journal"), tmp_path / "a")
    journal = HeldUpJournal(folder(tmp_path / "journal"))
    standby = attempt(journal, tmp_path / "b")
    next_position = journal.last() + 1
    journal.meanwhile = lambda: trimmed(head, next_position)
    assert standby.take_now() is None
    head.disk.write_atomic(head.store / "x", b"last")
    assert not head.lost
    head.shipper.close()
    assert Head(folder_journal(tmp_path / "journal"), tmp_path / "c").files()["x"] == b"last"


def test_the_first_of_three_owners_is_fenced_however_late_it_appends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipper, "TRIM_RECORDS", 4)
    first = taken_over(folder_journal(tmp_path / "journal"), _made(tmp_path / "a"))
    for name in ("b", "c", "d"):
        head = Head(folder_journal(tmp_path / "journal"), tmp_path / name)
        trimmed(head, head.appender.last + 1)
        head.shipper.close()
    with pytest.raises(JournalFencedError):
        first.appender.append(RecordKind.CHANGES, (), 1)


def test_a_take_over_whose_record_is_damaged_still_fences_the_engine_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipper, "TRIM_RECORDS", 4)
    first = taken_over(folder_journal(tmp_path / "journal"), _made(tmp_path / "a"))
    position = first.appender.last + 1
    second = Head(folder_journal(tmp_path / "journal"), tmp_path / "b")
    trimmed(second, position + 1)
    second.shipper.close()
    (record,) = (tmp_path / "journal" / "records").glob(f"*{position:020d}")
    record.write_bytes(b"damaged")
    third = Head(folder_journal(tmp_path / "journal"), tmp_path / "c")
    trimmed(third, third.appender.last + 1)
    third.shipper.close()
    with pytest.raises(JournalFencedError):
        first.appender.append(RecordKind.CHANGES, (), 1)


def test_of_standbys_that_race_one_takes_over(tmp_path: Path) -> None:
    Head(folder_journal(tmp_path / "journal"), tmp_path / "a").shipper.close()
    standbys = [attempt(folder_journal(tmp_path / "journal"), tmp_path / f"{n}") for n in range(6)]
    start = threading.Barrier(len(standbys))

    def race(standby: Takeover) -> TakenOver | None:
        start.wait(60)
        return standby.take_now()

    with ThreadPoolExecutor(len(standbys)) as threads:
        taken = [each for each in threads.map(race, standbys) if each is not None]
    # One that comes later takes over from the winner, which finds that out with its next append.
    owners = {each.appender.epoch for each in taken}
    assert len(owners) == len(taken) >= 1
    *fenced, _ = sorted(taken, key=lambda each: each.appender.epoch)
    for each in fenced:
        with pytest.raises(JournalFencedError):
            each.appender.append(RecordKind.CHANGES, (), 1)


def _made(path: Path) -> Path:
    path.mkdir()
    return path


def _require(holds: bool) -> None:
    from headwater.errors import DiskError

    if not holds:
        raise DiskError(Path("later"), "see", 5)
