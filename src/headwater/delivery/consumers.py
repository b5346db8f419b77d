"""The consumers of one stream: waking them for stored messages, processing acks, recording changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from headwater.clock import Clock
from headwater.delivery.advisories import ConsumerAdvisories
from headwater.delivery.consumer import Consumer
from headwater.delivery.outlet import Outlet
from headwater.delivery.tallies import SubjectTally, Tallies
from headwater.delivery.timers import Timers
from headwater.errors import Error
from headwater.model.adopted import Adopted
from headwater.model.consumer import ConsumerConfig
from headwater.model.run import Run
from headwater.model.stream import Retention
from headwater.stream.head import HeadEntry
from headwater.stream.notes import GONE
from headwater.stream.retention.hold import Holder, is_released
from headwater.stream.retention.removal import Removal
from headwater.stream.stream import Stream
from headwater.wire.ack_body import ACK, DONE, AckBody, AckKind, parse_ack_body
from headwater.wire.ack_subject import UNNAMED, AckScope, read_ack
from headwater.wire.frames import Frame

logger = logging.getLogger(__name__)

RECORD_EVERY_NS = 250_000_000
"""How long deliveries, and acks without confirmation, stay unrecorded: a crash repeats them."""
RETRY_NS = 1_000_000_000
_NO_ACK = (b"", 0, 0, 0)
_LONG = 19
"""A sequence with this many digits may be too large, and is checked separately."""


class StreamConsumers:
    """Follows a stream for its consumers, and processes their acks; a sink of the bus."""

    def __init__(
        self,
        stream: Stream,
        outlet: Outlet,
        timers: Timers,
        clock: Clock,
        advisories: ConsumerAdvisories,
        send: Callable[[bytes], None],
        scope: AckScope = UNNAMED,
    ) -> None:
        self.items: list[Frame] = []
        self.stream = stream
        self.outlet = outlet
        self.clock = clock
        self.advisories = advisories
        self.scope = scope
        self.tallies = Tallies()
        self._timers = timers
        self._send = send
        self._by_name: dict[str, Consumer] = {}
        self._by_key: dict[bytes, Consumer] = {}
        self._by_tally: dict[SubjectTally, set[Consumer]] = {}
        self._listening: set[Consumer] = set()
        """Consumers that deliver to a subject of their own, or wait for a client to return."""
        self.on_listening: Callable[[StreamConsumers, bool], None] = lambda consumers, listens: None
        """Called when the first of those is added, and when none is left."""
        self._refiltered: set[Consumer] = set()
        """Consumers that may have pending messages that their filters do not match any more."""
        self._num_listed = 0
        self._was_open = outlet.is_open
        self._changed: set[Consumer] = set()
        self._releasable: list[int] = []
        """Settled messages that may be removed, and could not be checked yet."""
        self._gone: set[str] = set()
        """Deleted consumers whose deletion is not in the log yet."""
        self.declaring = asyncio.Lock()
        """Held while a consumer is created, changed or deleted, so that this happens one after the other."""
        self.on_abandoned: Callable[[Consumer], None] = lambda consumer: None
        """Called with a consumer that was not used for its inactive threshold."""
        stream.events.listen(self)

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def listed(self) -> list[Consumer]:
        """Return the consumers that clients see, sorted by name."""
        seen = (c for c in self._by_name.values() if not c.config.direct)
        return sorted(seen, key=lambda consumer: consumer.name)

    @property
    def num_listed(self) -> int:
        """Return how many consumers clients see."""
        return self._num_listed

    @property
    def configs(self) -> Mapping[str, ConsumerConfig]:
        """Return the configs of all consumers by name, as a live view."""
        return _Configs(self._by_name)

    def get(self, name: str) -> Consumer | None:
        """Return the consumer of this name."""
        return self._by_name.get(name)

    def add(self, consumer: Consumer) -> None:
        """Add a consumer."""
        self._by_name[consumer.name] = consumer
        self._num_listed += not consumer.config.direct
        self._gone.discard(consumer.name)
        for key in consumer.acks.keys:
            self._by_key[key] = consumer
        self._by_tally.setdefault(consumer.tally, set()).add(consumer)
        if consumer.config.is_push:
            self._listen(consumer)
        self.changed(consumer)
        self.arm(consumer)
        # Interest that changed since its creation was reported to the others only.
        consumer.on_interest()
        consumer.wake()

    def expect(self, names: Iterable[str]) -> None:
        """Remove all recorded consumers except these from the log: they were deleted without a record."""
        self._gone.update(set(self.stream.consumers.recorded_names).difference(names))
        if self._gone:
            self._record_later()

    async def remove(self, consumer: Consumer, *, forget: bool = True) -> None:
        """Remove a consumer; with `forget` for good, together with messages that only it needed."""
        self._by_name.pop(consumer.name, None)
        for key in consumer.acks.keys:
            self._by_key.pop(key, None)
        self._by_tally[consumer.tally].discard(consumer)
        if not self._by_tally[consumer.tally]:
            del self._by_tally[consumer.tally]
        self._changed.discard(consumer)
        self._listen_no_more(consumer)
        self._refiltered.discard(consumer)
        self._num_listed -= not consumer.config.direct
        self._timers.forget(consumer)
        await consumer.close()
        if not forget:
            return
        if consumer.config.is_recorded:
            self._gone.add(consumer.name)
            self._record()
        await self.drop_unneeded()

    async def drop_unneeded(self) -> None:
        """Remove messages that no consumer needs, if the stream's retention is interest or work queue."""
        retention = self.stream.config.retention
        if retention == Retention.INTEREST or (
            retention == Retention.WORKQUEUE and self.stream.retention.holds
        ):
            await self.stream.retention.drop_unneeded()

    def rejoined(self, consumer: Consumer, tally: SubjectTally) -> None:
        """Record that a consumer has other filters now than those of this tally."""
        self._refiltered.add(consumer)
        self._by_tally[tally].discard(consumer)
        if not self._by_tally[tally]:
            del self._by_tally[tally]
        self._by_tally.setdefault(consumer.tally, set()).add(consumer)

    def on_stored(self, entries: Sequence[HeadEntry]) -> None:
        """Wake the consumers whose filters match the stored messages."""
        touched: set[SubjectTally] = set()
        for entry in entries:
            run = entry.run
            if run is None:
                touched.update(self._by_tally)
                for consumer in self._by_name.values():
                    consumer.backlog.lose_count()
            else:
                touched |= self.tallies.stored(run.subjects)
        for tally in touched:
            for consumer in self._by_tally.get(tally, ()):
                consumer.wake()

    def on_adopted(self, adopted: Adopted) -> None:
        """Wake the consumers whose filters match an adopted file's messages."""
        counts = {subject: count for subject, (count, _) in adopted.subjects.items()}
        for tally in self.tallies.counted(counts):
            for consumer in self._by_tally.get(tally, ()):
                consumer.wake()

    def on_removed(self, removal: Removal) -> None:
        """Settle pending messages that were removed, and have waiting messages counted again."""
        if not self._by_name:
            return
        if removal.everything or not removal.seqs:
            for consumer in self._by_name.values():
                consumer.on_removed(0, self.stream.reading.durable_seq, removal)
            return
        low, high = removal.seqs.min(), removal.seqs.max()
        for consumer in self._concerned(removal.subjects):
            consumer.on_removed(low, high, removal)

    def _concerned(self, subjects: Iterable[bytes]) -> set[Consumer]:
        """Return the consumers that match any of these subjects, or matched others at their delivery."""
        found = set(self._refiltered)
        for tally in self.tallies.of_any(subjects):
            found |= self._by_tally.get(tally, set())
        return found

    def on_rebuilt(self) -> None:
        """Return to the durable states; from there on each is written completely.

        A checkpoint may be in progress with states that contain more than was recorded, and that is rolled
        back here. Only a complete state is correct on top of such a state as well. A change is not.
        """
        self._gone.update(name for name in self.stream.consumers.recorded_names if name not in self._by_name)
        for consumer in self._by_name.values():
            recorded = self.stream.consumers.recorded(consumer.name) if consumer.config.is_recorded else []
            if recorded:
                consumer.restore(recorded)
            consumer.state.must_be_written()
            consumer.backlog.lose_count()
            self.changed(consumer)
            consumer.wake()
        if self._gone:
            self._record_later()

    def wants(self, subject: bytes) -> bool:
        """Return whether any consumer's filters match a subject."""
        return bool(self.tallies.of(subject))

    def needs(self, seq: int, subject: bytes) -> bool:
        """Return whether any consumer, or any upstream that copies from here, still needs a message."""
        for tally in self.tallies.of(subject):
            if any(consumer.state.needs(seq) for consumer in self._by_tally.get(tally, ())):
                return True
        return self.stream.retention.holds.needs(seq, subject)

    def released(self, run: Run, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return which of these messages are not needed any more under the stream's retention."""
        retention, subjects, seqs = self.stream.config.retention, run.subjects, run.seqs.tolist()
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
        consumers = [c for tally in self.tallies.of(subject) for c in self._by_tally.get(tally, ())]
        return [*self.stream.retention.holds.of(subject), *(consumer.state for consumer in consumers)]

    def is_done_with(self, first_seq: int, last_seq: int) -> bool:
        """Return whether it is certain, without reading, that no message of a range is needed."""
        return not self._by_name and self.stream.retention.holds.have_settled(first_seq, last_seq)

    def dump(self) -> dict[str, list[bytes]]:
        """Return the state of every recorded consumer."""
        return {c.name: [c.state.snapshot()] for c in self._by_name.values() if c.config.is_recorded}

    def flush(self) -> None:
        """Process the acks that have arrived.

        Most are plain acks: those of one consumer are settled together. They are made durable at once if that
        removes messages or a client waits for the confirmation, otherwise soon.
        """
        items, self.items[:] = list(self.items), []
        confirmed: list[bytes] = []
        plain: dict[bytes, list[int]] = {}
        at_once = self._is_emptied
        for subject, reply, _, body in items:
            if not reply and body in DONE:
                # From a consumer's second ack on, only the sequence matters.
                tokens = subject.rsplit(b".", 5)
                seqs = plain.get(tokens[0])
                if seqs is not None and tokens[2].isdigit() and len(tokens[2]) < _LONG:
                    seqs.append(int(tokens[2]))
                    continue
            key, count, seq, consumer_seq = read_ack(subject) or _NO_ACK
            consumer = self._by_key.get(key)
            if consumer is None:
                continue
            ack = parse_ack_body(body)
            if ack is ACK and consumer.config.settles_single and not consumer.config.sample_percent:
                plain.setdefault(key, []).append(seq)
                answered = seq < consumer.state.next_seq
            else:
                at_once = True
                self._settle_each(plain)
                answered = self._take(consumer, ack, count, seq, consumer_seq)
            if ack.kind is AckKind.NEXT:
                consumer.pull_next(ack.request, reply)
            elif reply and answered:
                confirmed.append(b"PUB %b 0\r\n\r\n" % reply)
        self._settle_each(plain)
        if at_once or confirmed:
            self._record(confirmed)

    def _settle_each(self, plain: dict[bytes, list[int]]) -> None:
        """Settle messages by the keys of their ack subjects, each consumer's together."""
        for key, seqs in plain.items():
            consumer = self._by_key[key]
            settled = consumer.state.ack_each(seqs, self.clock.steady_ns())
            if settled:
                self.changed(consumer)
                consumer.wake()
                if self._is_emptied:
                    self._releasable += settled
        plain.clear()

    def _take(self, consumer: Consumer, ack: AckBody, count: int, seq: int, consumer_seq: int) -> bool:
        """Process an ack; return whether it may be confirmed."""
        if ack.kind in (AckKind.NAK, AckKind.PROGRESS, AckKind.UNKNOWN):
            if consumer.acknowledge(ack, seq, consumer_seq):
                self._changed.add(consumer)
                if ack.kind is AckKind.NAK:
                    self.advisories.nak(consumer, seq, consumer_seq, count)
            return True
        if ack.kind is AckKind.TERM:
            self.advisories.terminated(consumer, seq, consumer_seq, count, ack.reason)
        else:
            self.advisories.sample(consumer, seq, consumer_seq, count)
        if seq >= consumer.state.next_seq and not consumer.config.flow_control:
            return False
        self._settle(consumer, seq, lambda: consumer.acknowledge(ack, seq, consumer_seq))
        return not consumer.config.acks_at_delivery or self._is_emptied

    @property
    def _is_emptied(self) -> bool:
        """Return whether the stream removes what its consumers have settled."""
        return self.stream.config.retention != Retention.LIMITS

    def _settle(self, consumer: Consumer, seq: int, acknowledge: Callable[[], bool]) -> bool:
        """Settle a message, with those before it if an ack covers them, and mark them for removal."""
        settled: Sequence[int] = ()
        if self._is_emptied:
            settled = [seq] if consumer.config.settles_single else consumer.state.pending_through(seq)
        changed = acknowledge()
        if changed:
            self._changed.add(consumer)
            self._releasable += settled
        return changed

    def flow_answered(self, name: str, subject: bytes, headers: bytes) -> None:
        """Process a flow control reply to a consumer."""
        consumer = self._by_name.get(name)
        if consumer is None:
            return
        through = consumer.confirmed_seq(headers)
        if self._settle(consumer, through, lambda: consumer.flow_answered(subject, headers)):
            self._record()

    def delivered(self, consumer: Consumer, seqs: Sequence[int]) -> None:
        """Record first deliveries."""
        self.changed(consumer)
        if consumer.config.acks_at_delivery and self._is_emptied:
            self._releasable += seqs
            self._record()

    def changed(self, consumer: Consumer) -> None:
        """Have the consumer's state recorded soon."""
        if consumer not in self._changed:
            self._changed.add(consumer)
            self._record_later()

    def _record_later(self) -> None:
        self._timers.at(self.clock.steady_ns() + RECORD_EVERY_NS, self)

    def tick(self, now_ns: int) -> int | None:
        """Record the changes."""
        self._record()
        return None

    def _record(self, confirmed: Sequence[bytes] = ()) -> None:
        """Make all changes durable as one, then confirm.

        While the stream cannot store, all changes stay and nothing is confirmed: clients ask again.
        """
        for consumer in self._changed:
            self.arm(consumer)
        if not self.stream.publishing.is_storing:
            if self._changed or self._gone or self._releasable:
                self._record_later()
            return
        # Before the changes are taken, since this may read.
        removal, self._releasable = self._released()
        if self._releasable:
            self._record_later()
        changes = dict.fromkeys(self._gone, GONE)
        for consumer in self._changed:
            change = consumer.state.take_delta() if consumer.config.is_recorded else None
            if change:
                changes[consumer.name] = change
        self._changed.clear()
        self._gone.clear()
        if changes or removal or confirmed:
            # Also without a change: the one that a client asks about again may be on its way to the disk.
            self.stream.consumers.record(changes, removal=removal, then=confirmed)

    def _released(self) -> tuple[Removal, list[int]]:
        """Return the removal of settled messages that are not needed, and those that cannot be read now."""
        released, unread = [], []
        for seq in self._releasable:
            try:
                if not self._still_needed(seq):
                    released.append(seq)
            except Error:
                unread.append(seq)
        removal, others = self.stream.retention.removal_of(released)
        return removal, unread + others

    def _still_needed(self, seq: int) -> bool:
        if len(self._by_name) == 1 and not self.stream.retention.holds:
            # Every releasable message was this consumer's.
            return next(iter(self._by_name.values())).state.needs(seq)
        subject = self.stream.reading.subject_at(seq)
        return subject is not None and self.needs(seq, subject)

    def abandon(self, consumer: Consumer) -> None:
        """Have a consumer removed that was inactive for too long."""
        self.on_abandoned(consumer)

    def arm(self, consumer: Consumer) -> None:
        """Have the consumer ticked at its next deadline."""
        self._timers.at(consumer.next_tick(), consumer)

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
            self.changed(consumer)
            self.advisories.max_deliveries(consumer, unsettled.stream_seq, unsettled.delivered_count)

    def on_interest(self) -> None:
        """Check which push consumers have subscribers now."""
        for consumer in list(self._listening):
            consumer.on_interest()
        was_open, self._was_open = self._was_open, self.outlet.is_open
        if self._was_open and not was_open:
            for consumer in list(self._by_name.values()):
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
            self.on_listening(self, True)

    def _listen_no_more(self, consumer: Consumer) -> None:
        if consumer in self._listening:
            self._listening.remove(consumer)
            if not self._listening:
                self.on_listening(self, False)

    async def delete(self) -> None:
        """End all consumers, since their stream was deleted."""
        for consumer in list(self._by_name.values()):
            consumer.deleted()
            if not consumer.config.direct:
                self.advisories.action(consumer, "delete")
        await self._end()

    async def close(self) -> None:
        """Record everything and stop delivering."""
        for consumer in list(self._by_name.values()):
            consumer.leave_waiting()
        self._record()
        await self._end()

    async def _end(self) -> None:
        self._timers.forget(self)
        for consumer in list(self._by_name.values()):
            await self.remove(consumer, forget=False)


class _Configs(Mapping[str, ConsumerConfig]):
    """The configs of consumers by name."""

    def __init__(self, consumers: Mapping[str, Consumer]) -> None:
        self._consumers = consumers

    def __getitem__(self, name: str) -> ConsumerConfig:
        return self._consumers[name].config

    def __iter__(self) -> Iterator[str]:
        return iter(self._consumers)

    def __len__(self) -> int:
        return len(self._consumers)
