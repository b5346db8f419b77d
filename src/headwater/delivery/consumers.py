"""The consumers of one stream: added, woken for stored messages, removed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from headwater.clock import Clock
from headwater.delivery.acks import Acks
from headwater.delivery.advisories import ConsumerAdvisories
from headwater.delivery.consumer import Consumer
from headwater.delivery.consumer_index import ConsumerIndex
from headwater.delivery.needs import MessageNeeds
from headwater.delivery.outlet import Outlet
from headwater.delivery.state_recorder import StateRecorder
from headwater.delivery.tallies import SubjectTally, Tallies
from headwater.delivery.timers import Timers
from headwater.model.adopted import Adopted
from headwater.model.consumer import ConsumerConfig
from headwater.model.run import Run
from headwater.stream.head import HeadEntry
from headwater.stream.retention.removal import Removal
from headwater.stream.stream import Stream
from headwater.wire.ack_subject import UNNAMED, AckScope

logger = logging.getLogger(__name__)

RETRY_NS = 1_000_000_000


class StreamConsumers:
    """Follows a stream for its consumers, whose acks and changes its parts process and record."""

    def __init__(
        self,
        stream: Stream,
        outlet: Outlet,
        timers: Timers,
        clock: Clock,
        advisories: ConsumerAdvisories,
        scope: AckScope = UNNAMED,
        *,
        on_abandoned: Callable[[Consumer], None] = lambda consumer: None,
        on_listening: Callable[[StreamConsumers, bool], None] = lambda consumers, listens: None,
        tallies: Tallies | None = None,
    ) -> None:
        """With `tallies` the filters of its consumers are built already."""
        self.stream = stream
        self.outlet = outlet
        self.clock = clock
        self.advisories = advisories
        self.scope = scope
        """What the ack subjects of all consumers have in common."""
        self._timers = timers
        """Shared by all streams of the account."""
        self._index = ConsumerIndex(tallies)
        self.tallies = self._index.tallies
        """Those of the index; consumers join and leave them."""
        self._closed: list[Consumer] = []
        """Consumers that were closed with the engine. A checkpoint made from now on needs their states."""
        self._unopened: set[str] = set()
        """Consumers that could not be opened; what is recorded of them stays as it is."""
        self._needs = MessageNeeds(stream, self._index)
        self.recorder = StateRecorder(stream, self._needs, timers, clock)
        self.acks = Acks(self._index, self._needs, self.recorder, advisories, clock)
        """The sink of the bus for the acks of all consumers."""
        self._listening: set[Consumer] = set()
        """Consumers that deliver to a subject of their own, or wait for a client to return."""
        self._on_listening = on_listening
        """Called when the first of those is added, and when none is left."""
        self._was_open = outlet.is_open
        """Whether the leaf connection was up when interest last changed."""
        self.declaring = asyncio.Lock()
        """Held while a consumer is created, changed or deleted, so that this happens one after the other."""
        self.on_abandoned = on_abandoned
        """Called with a consumer that was not used for its inactive threshold."""
        stream.events.listen(self)

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self._index)

    def __len__(self) -> int:
        return len(self._index)

    @property
    def listed(self) -> list[Consumer]:
        """Return the consumers that clients see, sorted by name."""
        return self._index.listed

    @property
    def num_listed(self) -> int:
        """Return how many consumers clients see."""
        return self._index.num_listed

    @property
    def configs(self) -> Mapping[str, ConsumerConfig]:
        """Return the configs of all consumers by name, as a live view."""
        return self._index.configs

    def get(self, name: str) -> Consumer | None:
        """Return the consumer of this name."""
        return self._index.get(name)

    def add(self, consumer: Consumer) -> None:
        """Add a consumer."""
        self._unopened.discard(consumer.name)
        self._index.add(consumer)
        if consumer.config.is_push:
            self._listen(consumer)
        self.recorder.added(consumer)
        self.recorder.arm(consumer)
        # Interest that changed since its creation was reported to the others only.
        consumer.on_interest()
        consumer.wake()

    def not_opened(self, name: str) -> None:
        """Keep the record of a consumer that cannot be opened, until another one has its name."""
        self._unopened.add(name)

    def expect(self, names: Iterable[str]) -> None:
        """Remove all recorded consumers except these from the log: they were deleted without a record."""
        self.recorder.deleted(set(self.stream.consumers.recorded_names).difference(names))

    async def remove(self, consumer: Consumer) -> None:
        """Remove a consumer permanently, together with messages that only it needed."""
        await self._stop(consumer)
        if consumer.config.is_recorded:
            self.recorder.deleted([consumer.name])
            self.recorder.record()
        await self.drop_unneeded()

    async def _stop(self, consumer: Consumer) -> None:
        self._index.remove(consumer)
        self.recorder.removed(consumer)
        self._listen_no_more(consumer)
        await consumer.close()

    async def drop_unneeded(self) -> None:
        """Remove messages that no consumer needs, if the stream's retention is interest or work queue."""
        await self._needs.drop_unneeded()

    def rejoined(self, consumer: Consumer, tally: SubjectTally) -> None:
        """Record that a consumer has other filters now than those of this tally."""
        self._index.rejoined(consumer, tally)

    def on_stored(self, entries: Sequence[HeadEntry]) -> None:
        """Wake the consumers whose filters match the stored messages."""
        touched: set[SubjectTally] = set()
        for entry in entries:
            run = entry.run
            if run is None:
                for consumer in self._index:
                    touched.add(consumer.tally)
                    consumer.backlog.lose_count()
            else:
                touched |= self.tallies.stored(run.subjects)
        for tally in touched:
            for consumer in self._index.with_tally(tally):
                consumer.wake()

    def on_adopted(self, adopted: Adopted) -> None:
        """Wake the consumers whose filters match an adopted file's messages."""
        counts = {subject: count for subject, (count, _) in adopted.subjects.items()}
        for tally in self.tallies.counted(counts):
            for consumer in self._index.with_tally(tally):
                consumer.wake()

    def on_removed(self, removal: Removal) -> None:
        """Settle pending messages that were removed, and have waiting messages counted again."""
        if not len(self._index):
            return
        if removal.everything or not removal.seqs:
            for consumer in self._index:
                consumer.on_removed(0, self.stream.reading.durable_seq, removal)
            return
        low, high = removal.seqs.min(), removal.seqs.max()
        for consumer in self._index.concerned(removal.subjects):
            consumer.on_removed(low, high, removal)

    def on_rebuilt(self) -> None:
        """Return to the durable states; from there on each is written completely.

        A checkpoint may be in progress with states that contain more than was recorded, and that is rolled
        back here. Only a complete state is correct on top of such a state as well. A change is not.
        """
        for consumer in self._closed:
            self._restore(consumer)
        for consumer in self._index:
            self._restore(consumer)
            consumer.state.must_be_written()
            consumer.backlog.lose_count()
            self.recorder.changed(consumer)
            consumer.wake()
        if not self._closed:
            names = self.stream.consumers.recorded_names
            self.recorder.deleted(n for n in names if n not in self._index and n not in self._unopened)

    def _restore(self, consumer: Consumer) -> None:
        """Return a consumer to its recorded state, if there is one."""
        recorded = self.stream.consumers.recorded(consumer.name) if consumer.config.is_recorded else []
        if recorded:
            consumer.restore(recorded)

    def wants(self, subject: bytes) -> bool:
        """Return whether any consumer's filters match a subject."""
        return self._needs.wants(subject)

    def released(self, run: Run, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return which of these messages are not needed any more under the stream's retention."""
        return self._needs.released(run, rows)

    def is_done_with(self, first_seq: int, last_seq: int) -> bool:
        """Return whether it is certain, without reading, that no message of a range is needed."""
        return self._needs.is_done_with(first_seq, last_seq)

    def dump(self) -> dict[str, list[bytes]]:
        """Return the state of every recorded consumer, also if it is closed or could not be opened.

        A checkpoint replaces all earlier records. A consumer that it does not contain would start over.
        """
        kept = {
            name: recorded for name in self._unopened if (recorded := self.stream.consumers.recorded(name))
        }
        known = (consumer for consumer in (*self._closed, *self._index) if consumer.config.is_recorded)
        return kept | {consumer.name: [consumer.state.snapshot()] for consumer in known}

    def abandon(self, consumer: Consumer) -> None:
        """Have a consumer removed that was inactive for too long."""
        self.on_abandoned(consumer)

    def retry_soon(self, consumer: Consumer) -> None:
        """Have a consumer that met an error tried again."""
        self._timers.at(self.clock.steady_ns() + RETRY_NS, consumer)

    def report_undeliverable(self, consumer: Consumer, seq: int, size: int) -> None:
        """Report that a message stays, since it is larger than the server accepts."""
        limit = self.outlet.max_payload
        logger.error(
            "cannot deliver message %d of stream %s to consumer %s: it has %d bytes with its headers, "
            "the server accepts %d; raise its max_payload",
            *(seq, self.stream.name, consumer.name, size, limit),
        )
        self.advisories.undeliverable(consumer, seq, size, limit)

    def report_given_up(self, consumer: Consumer) -> None:
        """Report messages that reached max_deliver."""
        for unsettled in consumer.state.take_given_up():
            self.recorder.changed(consumer)
            self.advisories.max_deliveries(consumer, unsettled.stream_seq, unsettled.delivered_count)

    def on_interest(self) -> None:
        """Check which push consumers have subscribers now."""
        for consumer in list(self._listening):
            consumer.on_interest()
        was_open, self._was_open = self._was_open, self.outlet.is_open
        if self._was_open and not was_open:
            for consumer in list(self._index):
                consumer.wake()

    def watch_interest(self, consumer: Consumer, *, wanted: bool = True) -> None:
        """Have a pull consumer check interest as well, or not any more."""
        if wanted:
            self._listen(consumer)
        elif not consumer.config.is_push:
            self._listen_no_more(consumer)

    def _listen(self, consumer: Consumer) -> None:
        self._listening.add(consumer)
        if len(self._listening) == 1:
            self._on_listening(self, True)

    def _listen_no_more(self, consumer: Consumer) -> None:
        if consumer in self._listening:
            self._listening.remove(consumer)
            if not self._listening:
                self._on_listening(self, False)

    async def delete(self) -> None:
        """End all consumers, since their stream was deleted."""
        for consumer in list(self._index):
            consumer.deleted()
            if not consumer.config.direct:
                self.advisories.action(consumer, "delete")
        await self._end()

    async def close(self) -> None:
        """Record everything and stop delivering."""
        for consumer in list(self._index):
            consumer.leave_waiting()
        self.recorder.record()
        self._needs.keep_all()
        await self._end()

    async def _end(self) -> None:
        await self.recorder.close()
        for consumer in list(self._index):
            # In the same turn as it leaves the index: a fold may take the states at any time.
            self._closed.append(consumer)
            await self._stop(consumer)
