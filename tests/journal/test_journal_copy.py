"""A head is written into an empty journal; what is not finished is never taken over."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.journal.head_journal import HeadJournal, UnfitJournalError
from headwater.journal.journal_copy import JournalCopy
from headwater.journal.record import PIECE_BYTES, RecordKind, decode
from journals import Head, folder_journal, taken_over

FILES = {
    "catalog.db": b"rows" * 1000,
    "$G/ORDERS/log/1": b"x" * (2 * PIECE_BYTES + 5),
    "$G/ORDERS/table": b"",
    **{f"$G/S{n}/declared.json": b"%d" % n for n in range(50)},
}


@pytest.fixture
def journal(tmp_path: Path) -> HeadJournal:
    return folder_journal(tmp_path / "journal")


def begun(journal: HeadJournal, epoch: int = 7) -> JournalCopy:
    copy = JournalCopy(journal)
    copy.begin(epoch)
    return copy


def put_all(copy: JournalCopy) -> None:
    for name, data in FILES.items():
        copy.put(name, data)


def files_in(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_an_engine_takes_over_what_was_copied_with_a_higher_epoch(
    tmp_path: Path, journal: HeadJournal
) -> None:
    copy = begun(journal)
    put_all(copy)
    (tmp_path / "compared").mkdir()
    copy.rebuild(tmp_path / "compared")
    assert files_in(tmp_path / "compared") == FILES
    copy.finish()
    head = Head(journal, tmp_path / "store")
    assert (head.files(), head.appender.epoch) == (FILES, 8)
    head.disk.write_atomic(tmp_path / "store" / "$G" / "S1" / "declared.json", b"changed")
    head.shipper.close()
    assert taken_over(journal, tmp_path / "store").appender.epoch == 9
    assert files_in(tmp_path / "store") == {**FILES, "$G/S1/declared.json": b"changed"}


def test_no_engine_takes_over_an_unfinished_copy(tmp_path: Path, journal: HeadJournal) -> None:
    copy = begun(journal)
    for _ in range(2):
        with pytest.raises(UnfitJournalError, match="has an unfinished copy of a store: run the same"):
            Head(journal, tmp_path / "store")
        put_all(copy)
        copy.rebuild(tmp_path)
    assert not files_in(tmp_path / "store")


def test_an_interrupted_copy_is_replaced_by_the_next_one(tmp_path: Path, journal: HeadJournal) -> None:
    first = begun(journal)
    first.put("$G/OLD/declared.json", b"of the first attempt")
    first.rebuild(tmp_path / "first")
    second = begun(journal)
    with pytest.raises(UnfitJournalError, match=r"is used by another process: process .* has it"):
        first.finish()
    put_all(second)
    second.finish()
    assert Head(journal, tmp_path / "store").files() == FILES
    assert journal.get(1) is None, "the records of the first attempt are removed"


def test_a_journal_that_is_not_empty_is_refused_and_stays_as_it_is(
    tmp_path: Path, journal: HeadJournal
) -> None:
    head = Head(journal, tmp_path / "store")
    head.disk.write_atomic(tmp_path / "store" / "x", b"1")
    head.shipper.close()
    before = journal.last()
    for look in (JournalCopy(journal).require_empty, lambda: begun(journal)):
        with pytest.raises(UnfitJournalError, match="is not empty: choose another name or prefix"):
            look()
    assert journal.last() == before


def test_an_engine_that_starts_first_keeps_the_journal(tmp_path: Path, journal: HeadJournal) -> None:
    copy = JournalCopy(journal)
    assert copy.require_empty() == 0
    Head(journal, tmp_path / "store").shipper.close()
    with pytest.raises(UnfitJournalError, match="is not empty"):
        copy.begin(1)


def test_a_copy_whose_positions_were_used_and_trimmed_meanwhile_does_not_succeed(
    tmp_path: Path, journal: HeadJournal
) -> None:
    held_up = begun(journal)
    other = begun(journal)
    put_all(other)
    other.finish()
    # As a bucket is after years: what the copy that was held up would notice is gone.
    journal.trim(journal.last(), ())
    with pytest.raises(UnfitJournalError, match=r"an engine has used the journal .* meanwhile"):
        held_up.finish()


def test_releases_that_know_no_copies_refuse_its_records(journal: HeadJournal) -> None:
    begun(journal)
    record = journal.get(1)
    assert record is not None
    assert record[8] == 3
    assert decode(record, "journal", 1).kind == RecordKind.COPYING
