"""Messages that wait to share a batch of the log."""

from __future__ import annotations

from headwater.stream.pending import BATCH_BYTES, PendingGroup


def filled(*, whole: bool) -> PendingGroup:
    """Return what waits after one large message."""
    pending = PendingGroup(whole=whole)
    pending.add(7, 70, b"s", b"h", b"x" * BATCH_BYTES)
    return pending


def test_a_batch_is_full_when_it_holds_enough_unless_it_must_stay_whole() -> None:
    assert not PendingGroup().is_full
    assert filled(whole=False).is_full
    assert not filled(whole=True).is_full


def test_what_waits_is_one_run() -> None:
    pending = filled(whole=False)
    pending.add(9, 90, b"t", b"", b"y")
    run = pending.run()
    assert run.seqs.tolist() == [7, 9]
    assert run.message(1).subject == b"t"
    assert pending.nbytes == BATCH_BYTES + 4


def test_nothing_waits_after_it_was_cleared() -> None:
    pending = filled(whole=True)
    pending.skipped = True
    pending.removal.everything = True
    pending.clear()
    assert not pending
    assert not pending.skipped
    assert not pending.removal
    assert pending.whole
