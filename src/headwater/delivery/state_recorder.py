"""Records what changed in the states of a stream's consumers, and removes what they have settled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from headwater.clock import Clock
from headwater.delivery.late_releases import LateReleases
from headwater.delivery.needs import MessageNeeds
from headwater.delivery.timers import Timers
from headwater.errors import Error
from headwater.stream.notes import GONE
from headwater.stream.retention.removal import Removal
from headwater.stream.stream import Stream

if TYPE_CHECKING:
    from headwater.delivery.consumer import Consumer

RECORD_EVERY_NS = 250_000_000
"""How long deliveries, and acks without confirmation, stay unrecorded: a crash repeats them."""


class StateRecorder:
    """Collects the changes of all consumers of a stream, and makes them durable as one."""

    def __init__(self, stream: Stream, needs: MessageNeeds, timers: Timers, clock: Clock) -> None:
        self._stream = stream
        self.meters = stream.meters
        """Counts deliveries and acks."""
        self._needs = needs
        self._timers = timers
        self._clock = clock
        self._changed: set[Consumer] = set()
        """Consumers whose states have unrecorded changes."""
        self._releasable: list[int] = []
        """Settled messages that may be removed, and were not checked yet."""
        self._late = LateReleases(stream, self._release)
        self._must_check = stream.reading.is_remote
        """Whether an earlier run of the engine may have left settled messages."""
        self._gone: set[str] = set()
        """Deleted consumers whose deletion is not in the log yet."""

    def added(self, consumer: Consumer) -> None:
        """Have a new consumer's state recorded, instead of the deletion of an earlier one of its name."""
        self._gone.discard(consumer.name)
        self.changed(consumer)

    def removed(self, consumer: Consumer) -> None:
        """Forget the unrecorded changes of a consumer."""
        self._changed.discard(consumer)
        self._timers.forget(consumer)

    def deleted(self, names: Iterable[str]) -> None:
        """Have the deletion of these consumers recorded soon."""
        self._gone.update(names)
        if self._gone:
            self._record_later()

    def changed(self, consumer: Consumer) -> None:
        """Have the consumer's state recorded soon."""
        if consumer not in self._changed:
            self._changed.add(consumer)
            self._record_later()

    def touched(self, consumer: Consumer) -> None:
        """Include the consumer's state in the next record, which the caller makes."""
        self._changed.add(consumer)

    def settled(self, consumer: Consumer, seqs: Sequence[int]) -> None:
        """The same, and check with it whether the messages that the consumer settled may be removed."""
        self._changed.add(consumer)
        self._releasable += seqs

    def delivered(self, consumer: Consumer, seqs: Sequence[int]) -> None:
        """Record first deliveries."""
        self.meters.deliveries += len(seqs)
        self.changed(consumer)
        if consumer.config.acks_at_delivery and self._needs.is_emptied:
            self._releasable += seqs
            self.record()

    def redelivered(self, consumer: Consumer) -> None:
        """Record one redelivery."""
        self.meters.redeliveries += 1
        self.changed(consumer)

    def arm(self, consumer: Consumer) -> None:
        """Have the consumer ticked at its next deadline."""
        self._timers.at(consumer.next_tick(), consumer)

    def _record_later(self) -> None:
        self._timers.at(self._clock.steady_ns() + RECORD_EVERY_NS, self)

    def tick(self, now_ns: int) -> int | None:
        """Record the changes."""
        self.record()
        return None

    def record(self, confirmed: Sequence[bytes] = ()) -> None:
        """Make all changes durable as one, then confirm.

        While the stream cannot store, all changes stay and nothing is confirmed: clients ask again.
        """
        for consumer in self._changed:
            self.arm(consumer)
        if not self._stream.publishing.is_storing:
            if self._changed or self._gone or self._releasable:
                self._record_later()
            return
        # Before the changes are taken, since this may read.
        removal, unread = self._released(self._releasable)
        if unread:
            self._late.add(unread)
        if self._releasable and self._must_check:
            # The first ack since the start: by now all consumers and all copies of the stream are known.
            self._must_check = False
            self._late.check(self._needs.drop_settled)
        self._releasable = []
        changes = dict.fromkeys(self._gone, GONE)
        for consumer in self._changed:
            change = consumer.state.take_delta() if consumer.config.is_recorded else None
            if change:
                changes[consumer.name] = change
        self._changed.clear()
        self._gone.clear()
        if changes or removal or confirmed:
            # Also without a change: the one that a client asks about again may be on its way to the disk.
            self._stream.consumers.record(changes, removal=removal, then=confirmed)

    def _release(self, seqs: Sequence[int]) -> None:
        """Remove settled messages whose run is in memory now; raise if that must be tried again."""
        self._stream.publishing.require_storing()
        removal, unread = self._released(seqs)
        if removal:
            self._stream.consumers.record({}, removal=removal)
        if unread:
            raise Error(f"{len(unread)} messages from sequence {unread[0]} on cannot be checked")

    def _released(self, seqs: Sequence[int]) -> tuple[Removal, list[int]]:
        """Return the removal of settled messages that are not needed, and those that cannot be read now."""
        released, unread = [], []
        for seq in seqs:
            try:
                if not self._needs.needs_settled(seq):
                    released.append(seq)
            except Error:
                unread.append(seq)
        removal, others = self._stream.retention.removal_of(released)
        return removal, unread + others

    async def close(self) -> None:
        """Stop recording by time, and removing what could not be read before."""
        self._timers.forget(self)
        await self._late.close()
