"""Unknown outcomes: late, lost and repeated appends, and another engine that was faster."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakable_objects import BreakableObjects, ObjectFault
from headwater.errors import DiskError
from headwater.journal.appender import Appender, JournalFencedError
from headwater.journal.head_journal import PositionTakenError
from headwater.journal.object_journal import ObjectJournal
from headwater.journal.record import RecordKind, decode
from journals import folder


@pytest.fixture
def objects(tmp_path: Path) -> BreakableObjects:
    return BreakableObjects(folder(tmp_path / "journal"))


def appender(objects: BreakableObjects, last: int = 0, epoch: int = 1) -> Appender:
    return Appender(ObjectJournal(objects), "id", epoch, f"process {epoch} on a", last)


def append(engine: Appender) -> None:
    engine.append(RecordKind.CHANGES, (), 1)


def test_an_append_that_is_reported_as_failed_but_done_counts_once(objects: BreakableObjects) -> None:
    engine = appender(objects)
    objects.break_at(1, ObjectFault.LATE, "write")
    append(engine)
    append(engine)
    journal = ObjectJournal(objects)
    assert [decode(found, "", n).position for n, found in enumerate(journal.read(1, 2), 1)] == [1, 2]
    assert journal.last() == 2


def test_an_append_that_was_lost_is_repeated(objects: BreakableObjects) -> None:
    engine = appender(objects)
    objects.break_at(1, ObjectFault.REFUSED, "write")
    engine.append(RecordKind.CHANGES, (), 1, lambda error: False)
    assert (engine.last, ObjectJournal(objects).last()) == (1, 1)


def test_an_append_that_is_given_up_is_repeated_at_the_same_position(objects: BreakableObjects) -> None:
    engine = appender(objects)
    objects.break_always(ObjectFault.REFUSED)
    with pytest.raises(DiskError):
        append(engine)
    assert engine.last == 0
    objects.heal()
    append(engine)
    assert engine.last == 1


def test_another_engines_record_deposes_whatever_was_reported(objects: BreakableObjects) -> None:
    first, second = appender(objects), appender(objects, epoch=2)
    append(second)
    with pytest.raises(JournalFencedError, match="process 2 on a has it, with epoch 2"):
        append(first)
    objects.break_at(1, ObjectFault.REFUSED, "write")
    with pytest.raises(JournalFencedError):
        append(first)


def test_a_taken_position_without_a_record_is_tried_again(
    objects: BreakableObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A leader of a cluster that has not caught up may refuse although nothing is wrong.
    journal = ObjectJournal(objects)
    real, refusals = journal.append, [PositionTakenError(1)]

    def refuse_once(position: int, record: bytes) -> None:
        if refusals:
            raise refusals.pop()
        real(position, record)

    monkeypatch.setattr(journal, "append", refuse_once)
    engine = Appender(journal, "id", 1, "process 1 on a", 0)
    append(engine)
    assert engine.last == 1
