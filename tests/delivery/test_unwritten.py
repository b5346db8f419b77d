"""The next record of a consumer's state has what changed since the last one, and nothing else."""

from __future__ import annotations

from headwater.delivery.unwritten import Facts, Unwritten

ENTRY = (1, 100, 200)


def facts(pending: dict[int, tuple[int, int, int]], counts: dict[int, int], last_seq: int = 9) -> Facts:
    """Return a state with these unsettled messages and redelivery counts."""
    return Facts((last_seq, last_seq, 5), (0, 0, 0), last_seq + 1, pending, counts)


def test_the_first_record_has_everything() -> None:
    unwritten = Unwritten()
    assert unwritten.is_dirty
    change = unwritten.change(facts({1: ENTRY, 2: ENTRY}, {2: 1}))
    assert change.whole
    assert (change.pending, change.counted) == ({1: ENTRY, 2: ENTRY}, {2: 1})
    assert (change.delivered, change.next_seq) == ((9, 9, 5), 10)


def test_a_record_has_what_changed_since_the_last() -> None:
    unwritten = Unwritten()
    unwritten.written(9)
    assert not unwritten.is_dirty
    unwritten.touch(3)
    unwritten.touch(4)
    unwritten.recount(4, 5)
    assert unwritten.is_dirty
    change = unwritten.change(facts({1: ENTRY, 3: ENTRY}, {4: 2}))
    assert not change.whole
    assert (change.pending, list(change.settled)) == ({3: ENTRY}, [4])
    assert (change.counted, list(change.uncounted)) == ({4: 2}, [5])


def test_what_came_and_went_between_two_records_is_not_undone() -> None:
    unwritten = Unwritten()
    unwritten.written(3)
    unwritten.touch(3)
    unwritten.touch(4)
    assert list(unwritten.change(facts({}, {})).settled) == [3]


def test_no_recounted_message_is_no_change() -> None:
    unwritten = Unwritten()
    unwritten.written(3)
    unwritten.recount()
    assert not unwritten.is_dirty


def test_changes_build_on_a_snapshot_as_well_as_on_the_record_before_it() -> None:
    unwritten = Unwritten()
    unwritten.written(3)
    unwritten.touch(4)
    snapshot = unwritten.snapshot(facts({4: ENTRY}, {}))
    assert (snapshot.whole, snapshot.pending) == (True, {4: ENTRY})
    assert unwritten.is_dirty
    after = unwritten.change(facts({}, {}))
    assert (after.whole, list(after.settled)) == (False, [4]), "the snapshot has it as pending"


def test_lost_records_are_made_up_for_by_a_complete_one() -> None:
    unwritten = Unwritten()
    unwritten.written(3)
    unwritten.everything()
    assert unwritten.is_dirty
    assert unwritten.change(facts({1: ENTRY}, {})).whole
