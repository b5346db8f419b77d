"""Counts of redelivered messages are kept by sequence and dropped from below."""

from __future__ import annotations

from headwater.delivery.redelivered import Redelivered


def test_counts_are_kept_until_they_are_dropped() -> None:
    redelivered = Redelivered()
    redelivered.set(5, 1)
    redelivered.set(5, 2)
    assert (redelivered.get(5), redelivered.get(6), len(redelivered), 5 in redelivered) == (2, 0, 1, True)
    assert redelivered.pop(5)
    assert not redelivered.pop(5)


def test_what_lies_below_is_dropped_together() -> None:
    redelivered = Redelivered()
    for seq in (9, 3, 6):
        redelivered.set(seq, 1)
    assert redelivered.pop_below(3) == []
    assert sorted(redelivered.pop_below(7)) == [3, 6]
    assert redelivered.pop_below(7) == []
    redelivered.set(2, 1)
    assert redelivered.pop_below(7) == [2]


def test_loaded_counts_replace_the_others() -> None:
    redelivered = Redelivered()
    redelivered.set(1, 1)
    redelivered.load({4: 2})
    assert redelivered.counts == {4: 2}
    assert redelivered.pop_below(5) == [4]
