"""The errors of journals; what journals promise is tested in tests/contracts/test_journal.py."""

from __future__ import annotations

from headwater.errors import DiskError
from headwater.journal.head_journal import JournalError, PositionTakenError


def test_a_journal_that_fails_is_handled_as_a_disk_that_fails() -> None:
    error = JournalError("nats://a,b/LAKE", "append to", "its servers do not answer")
    assert isinstance(error, DiskError)
    assert str(error) == "cannot append to the journal nats://a,b/LAKE: its servers do not answer"
    assert not error.full


def test_a_taken_position_is_no_failure_of_the_journal() -> None:
    assert PositionTakenError(7).position == 7
    assert not isinstance(PositionTakenError(7), DiskError)
