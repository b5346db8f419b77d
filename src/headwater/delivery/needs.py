"""Which messages of a stream its consumers, and the upstreams that copy from it, still need."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headwater.delivery.consumer_index import ConsumerIndex
from headwater.model.run import Run
from headwater.model.stream import Retention
from headwater.stream.retention.hold import Holder, is_released
from headwater.stream.stream import Stream


class MessageNeeds:
    """Answers for one stream whether a message must stay; what it asks belongs to others."""

    def __init__(self, stream: Stream, index: ConsumerIndex) -> None:
        self._stream = stream
        self._index = index
        self._keeps_all = False
        """Whether the consumers are closed with the engine: what they need is not known any more."""

    def keep_all(self) -> None:
        """Have every message stay from now on, since the consumers are closed and not deleted."""
        self._keeps_all = True

    @property
    def is_emptied(self) -> bool:
        """Return whether the stream removes what its consumers have settled."""
        return self._stream.config.retention != Retention.LIMITS

    def needs(self, seq: int, subject: bytes) -> bool:
        """Return whether any consumer, or any upstream that copies from here, still needs a message."""
        if self._keeps_all:
            return True
        for consumer in self._index.matching(subject):
            if consumer.state.needs(seq):
                return True
        return self._stream.retention.holds.needs(seq, subject)

    def needs_settled(self, seq: int) -> bool:
        """Return the same for a message that a consumer has settled; an Error if it cannot be read."""
        if self._keeps_all:
            return True
        if len(self._index) == 1 and not self._stream.retention.holds:
            # Every settled message was this consumer's.
            return next(iter(self._index)).state.needs(seq)
        subject = self._stream.reading.subject_at(seq)
        return subject is not None and self.needs(seq, subject)

    def released(self, run: Run, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return which of these messages are not needed any more under the stream's retention."""
        if self._keeps_all:
            return np.empty(0, np.intp)
        retention, subjects, seqs = self._stream.config.retention, run.subjects, run.seqs.tolist()
        takers: dict[bytes, list[Holder]] = {}
        chosen = []
        for row in rows.tolist():
            subject = subjects[row]
            if subject not in takers:
                takers[subject] = self._takers(subject)
            if is_released(retention, takers[subject], seqs[row]):
                chosen.append(row)
        return np.array(chosen, np.intp)

    def _takers(self, subject: bytes) -> list[Holder]:
        """Return the states and holds whose filters match a subject."""
        states = (consumer.state for consumer in self._index.matching(subject))
        return [*self._stream.retention.holds.of(subject), *states]

    def is_done_with(self, first_seq: int, last_seq: int) -> bool:
        """Return whether it is certain, without reading, that no message of a range is needed."""
        if self._keeps_all or len(self._index):
            return False
        return self._stream.retention.holds.have_settled(first_seq, last_seq)

    def wants(self, subject: bytes) -> bool:
        """Return whether any consumer's filters match a subject."""
        return self._keeps_all or bool(self._index.tallies.of(subject))

    async def drop_unneeded(self) -> None:
        """Remove messages that no consumer needs, if the stream's retention is interest or work queue."""
        retention = self._stream.config.retention
        if retention == Retention.INTEREST or (
            retention == Retention.WORKQUEUE and self._stream.retention.holds
        ):
            await self._stream.retention.drop_unneeded()

    async def drop_settled(self) -> None:
        """Remove what was settled, but not removed, before the engine was started.

        Nothing is read unless messages are left that were delivered and are not pending.
        """
        reading, states = self._stream.reading, [consumer.state for consumer in self._index]
        last_seq = max((state.next_seq for state in states), default=0) - 1
        left = reading.live_between(reading.first_seq, last_seq)
        if left > sum(state.num_ack_pending for state in states):
            await self._stream.retention.drop_unneeded(reading.first_seq, last_seq)
