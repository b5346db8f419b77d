"""What the records of a consumer's state lack, so that the next record is as small as the change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from headwater.delivery.change import Change
from headwater.delivery.outstanding import Entry


class Facts(NamedTuple):
    """A consumer's state as a record of all of it would describe it."""

    delivered: tuple[int, int, int]
    """The last delivered consumer and stream sequence, and when."""
    ack_floor: tuple[int, int, int]
    next_seq: int
    pending: Mapping[int, Entry]
    counts: Mapping[int, int]


class Unwritten:
    """Collects which parts of a state changed since its last record."""

    def __init__(self) -> None:
        self.touched: set[int] = set()
        """Messages whose entries changed since the last record."""
        self.is_dirty = True
        """Whether anything changed since the last record."""
        self._is_whole = True
        """Whether the next record must contain the complete state."""
        self._recounted: set[int] = set()
        """Messages whose redelivery counts changed since the last record."""
        self._written_seq = 0
        """The last delivered sequence in the records: later entries that were settled need no record."""

    def touch(self, seq: int) -> None:
        """Note that the entry of a pending message changed, or that it is not pending any more."""
        self.touched.add(seq)
        self.is_dirty = True

    def recount(self, *seqs: int) -> None:
        """Note that the redelivery counts of these messages changed."""
        self._recounted.update(seqs)
        self.is_dirty |= bool(seqs)

    def everything(self) -> None:
        """Have the next record contain the complete state."""
        self.is_dirty = self._is_whole = True

    def change(self, facts: Facts) -> Change:
        """Return what the records lack."""
        pending, counts = facts.pending, facts.counts
        touched, recounted = (pending, counts) if self._is_whole else (self.touched, self._recounted)
        return Change.of(
            whole=self._is_whole,
            delivered=facts.delivered,
            ack_floor=facts.ack_floor,
            next_seq=facts.next_seq,
            pending={seq: pending[seq] for seq in sorted(touched) if seq in pending},
            # What was added and removed between two records was never written, so there is nothing to undo.
            settled=[s for s in sorted(touched) if s <= self._written_seq and s not in pending],
            counted={seq: counts[seq] for seq in sorted(recounted) if seq in counts},
            uncounted=[seq for seq in sorted(recounted) if seq not in counts],
        )

    def snapshot(self, facts: Facts) -> Change:
        """Return the complete state without counting it as written.

        Later changes build on it as well as on the previous record: they repeat what is new in it, and undo
        the entries in it that were settled since.
        """
        self._written_seq = facts.delivered[1]
        return Unwritten().change(facts)

    def written(self, stream_seq: int) -> None:
        """Note that the records contain everything, up to the last delivered sequence."""
        self.is_dirty = self._is_whole = False
        self.touched.clear()
        self._recounted.clear()
        self._written_seq = stream_seq
