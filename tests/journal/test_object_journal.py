"""A journal of objects when its bucket fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakable_objects import BreakableObjects, LaxObjects, ObjectFault
from headwater.journal.head_journal import JournalError, PositionTakenError
from headwater.journal.object_journal import ObjectJournal
from headwater.objects.objects import ObjectInfo
from headwater.objects.preflight import UnfitBucketError
from journals import folder


def test_each_request_that_fails_names_the_journal(tmp_path: Path) -> None:
    objects = BreakableObjects(folder(tmp_path / "journal"))
    journal = ObjectJournal(objects)
    objects.break_always(ObjectFault.REFUSED)
    for call in (
        lambda: journal.append(1, b"x"),
        lambda: journal.get(1),
        lambda: journal.last(),
        lambda: journal.last(1),
        lambda: journal.trim(2, ()),
    ):
        with pytest.raises(JournalError, match="the object store cannot be reached"):
            call()
    journal.close()


def test_a_late_append_is_found_at_its_position(tmp_path: Path) -> None:
    objects = BreakableObjects(folder(tmp_path / "journal"))
    journal = ObjectJournal(objects)
    objects.break_at(1, ObjectFault.LATE, "write")
    with pytest.raises(JournalError):
        journal.append(1, b"x")
    assert journal.get(1) == b"x"
    with pytest.raises(PositionTakenError):
        journal.append(1, b"x")
    journal.close()


class RacingObjects(BreakableObjects):
    """Objects to which an owner appends a record whenever somebody looks for one that is there."""

    def head(self, key: str) -> ObjectInfo:
        found = super().head(key)
        folder, _, number = key.rpartition("/")
        self.put(f"{folder}/{int(number) + 1:020d}", b"x")
        return found


def test_a_standby_finds_a_newer_record_of_an_owner_that_appends_as_fast_as_it_looks(tmp_path: Path) -> None:
    objects = RacingObjects(folder(tmp_path / "journal"))
    journal = ObjectJournal(objects)
    for position in (1, 2):
        journal.append(position, b"x")
    last = journal.last(1)
    assert last > 2
    assert journal.get(last) is not None
    journal.close()


def test_a_bucket_that_is_away_is_not_an_empty_journal(tmp_path: Path) -> None:
    objects = BreakableObjects(folder(tmp_path / "journal"))
    objects.break_always(ObjectFault.REFUSED)
    with pytest.raises(JournalError, match="cannot be reached"):  # which is tried again
        ObjectJournal(objects)


def test_a_bucket_without_conditional_writes_keeps_no_journal(tmp_path: Path) -> None:
    objects = folder(tmp_path / "journal")
    with pytest.raises(UnfitBucketError, match="does not support conditional writes: 16 of 16") as refused:
        ObjectJournal(LaxObjects(objects))
    assert "\n" not in str(refused.value)
    assert list(objects.list()) == [], "nothing is left there"
