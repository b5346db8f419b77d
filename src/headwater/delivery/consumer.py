"""One consumer: what push and pull share, from the next message to its ack.

1. There is demand: a pull request waits, or the deliver subject has interest.
2. The pump takes messages due for redelivery, then the next ones of the stream, a run at a time.
3. The state records the deliveries, and the outlet sends them as one buffer.
4. Acks settle them. The changes are recorded in the stream's log.

After a crash before the record the messages are redelivered. An ack is confirmed only after its record. A
consumer without demand, or at the end of the stream, has no task and costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from headwater.delivery.backlog import Backlog
from headwater.delivery.consumer_info import info_of
from headwater.delivery.feed import Feed, Slice
from headwater.delivery.outgoing import (
    CHUNK,
    CHUNK_BYTES,
    OutgoingMessages,
    Target,
    headers_only,
    idle_heartbeat,
)
from headwater.delivery.pacing import Pacing
from headwater.delivery.pause import Pause
from headwater.delivery.pump import Pump
from headwater.delivery.state import ConsumerState
from headwater.errors import Error
from headwater.model import headers as header_block
from headwater.model.consumer import AckPolicy, ConsumerConfig, ConsumerInfo
from headwater.model.run import numbers_at
from headwater.stream.retention.removal import Removal
from headwater.wire.ack_subject import AckSubjects

if TYPE_CHECKING:
    from headwater.delivery.consumers import StreamConsumers

logger = logging.getLogger(__name__)

ADDED_BYTES = 128
"""An upper bound of what a delivery adds to a message's headers."""
AGAIN = 64
"""The most messages that are redelivered in one turn."""
LONGEST_WAIT_S = 1.0
DELETED = "Unacknowledged message was deleted"
"""The reason in the advisory for a message that the stream removed while it was pending."""
_PUSH_BASED = header_block.build(code=409, description=b"Consumer is push based")


class Consumer:
    """A consumer of one stream; everything runs on the event loop."""

    def __init__(
        self,
        config: ConsumerConfig,
        created_ns: int,
        state: ConsumerState,
        consumers: StreamConsumers,
        *,
        only: Sequence[int] = (),
    ) -> None:
        self.config = config
        self.created_ns = created_ns
        self.state = state
        self.stream = consumers.stream
        # Without acks the older form of ack subjects does no harm, and older servers and clients with ordered
        # consumers (nats-py 2.16, for example) know no other.
        is_acked = config.ack_policy is not AckPolicy.NONE and not config.direct
        scope = consumers.scope._replace(is_named=consumers.scope.is_named and is_acked)
        self.acks = AckSubjects(consumers.stream.name, config.name, scope)
        """Writes the ack subjects of deliveries, and knows their prefixes."""
        self.tally = consumers.tallies.join(config.filters)
        """Counts messages per subject; shared by consumers with the same filters."""
        self.backlog = Backlog(self.stream, self.tally, lambda: self.state.next_seq, only)
        self._consumers = consumers
        self._recorder = consumers.recorder
        """Records the changes of all consumers of the stream."""
        self._outlet = consumers.outlet
        self._clock = consumers.clock
        self._feed = Feed(consumers.stream, self.tally)
        """Finds the next messages that match."""
        self._pacing = Pacing(config)
        self._pause = Pause(config.pause_until, self._clock)
        self._pump = Pump(self._deliver_all, self._rest, self._report_failure)
        """Runs only while there is something to deliver."""
        self._closed = False
        """Whether nothing is delivered any more."""

    @property
    def name(self) -> str:
        """Return the consumer's name."""
        return self.config.name

    @property
    def is_paused(self) -> bool:
        """Return whether deliveries are paused until a time."""
        return self.config.pause_until is not None and self._pause.left_ns > 0

    def target(self) -> Target | None:
        """Return the target of the next messages, or None while there is no demand."""
        raise AssertionError("push and pull implement this")

    def sent(self, target: Target, count: int, size: int) -> None:
        """Record what was sent to a target."""
        raise AssertionError("push and pull implement this")

    def at_end(self) -> None:
        """Record that nothing is left to deliver for now."""

    def num_waiting(self) -> int:
        """Return how many pull requests wait."""
        return 0

    def is_bound(self) -> bool:
        """Return whether the deliver subject of a push consumer has interest."""
        return False

    def wake(self) -> None:
        """Deliver, if there is demand."""
        if self._pump.is_running:
            self._pump.check_again()
        elif not self._closed and self.target() is not None:
            self._pump.start(f"{self.stream.name} > {self.name}")

    def _report_failure(self, task: asyncio.Task[None]) -> None:
        """Log the error that ended a task, if any, and try again soon."""
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        if isinstance(error, Error):
            logger.error("consumer %s of %s: %s", self.name, self.stream.name, error)
        else:
            logger.error("consumer %s of %s failed", self.name, self.stream.name, exc_info=error)
        self._consumers.retry_soon(self)

    def _rest(self) -> None:
        self._consumers.report_given_up(self)
        self._recorder.arm(self)

    async def _deliver_all(self) -> None:
        while self.target() is not None:
            if not self.backlog.is_known:
                await self.backlog.count()
            if self._is_at_end():
                # Before the next turn, so that its status is sent in one write with the last messages.
                self.at_end()
                return
            await self._outlet.turn()
            if self.state.next_redelivery() is not None:
                await self._deliver_queued()
            elif self.state.room == 0:
                return
            elif not await self._deliver_next():
                self.at_end()
                return

    def _is_at_end(self) -> bool:
        """Return whether it is certain, without reading, that nothing is left to deliver."""
        beyond = self.state.next_seq > self.stream.reading.durable_seq
        return beyond and self.state.next_redelivery() is None and self.state.room != 0

    async def _deliver_queued(self) -> None:
        """Deliver some of the queued redeliveries."""
        size = 0
        for _ in range(AGAIN):
            target = self.target()
            if target is None or self.state.next_redelivery() is None or size > CHUNK_BYTES:
                return
            size += await self._deliver_again(target)

    async def _deliver_again(self, target: Target) -> int:
        """Deliver the first redelivery; return how many bytes were sent."""
        seq = self.state.next_redelivery()
        assert seq is not None
        message = self._feed.resident_message(seq) or await self._feed.message(seq)
        if message is None:
            self.forget([seq])
            return 0
        if self.target() != target or self.state.next_redelivery() != seq:
            return 0  # settled, or the demand ended, while it was read
        headers, datas = self._payload([message.headers], [message.data])
        count, consumer_seq = self.state.delivered_count(seq) + 1, self.state.delivered.consumer_seq + 1
        reply = self.acks.format(count, seq, consumer_seq, message.ts, len(self.backlog))
        deliveries = OutgoingMessages([reply], [message.subject], headers, datas)
        size = deliveries.size
        if target.size is not None and size > target.size:
            self.too_large(target)
            return 0
        self.state.deliver(seq, self._clock.steady_ns())
        if size <= self._outlet.max_payload - ADDED_BYTES or self._fits([seq], deliveries):
            self.send(target, deliveries, size)
        self._recorder.redelivered(self)
        return size

    async def _deliver_next(self) -> bool:
        """Deliver the next messages; return False at the end of the stream."""
        seq, target = self.state.next_seq, self.target()
        wanted = 1 if target is None or self._pacing.one_by_one else target.messages
        room = self.state.room
        found = self._feed.resident(seq, wanted if room is None else min(wanted, room))
        found = found or await self._feed.read(seq)
        if found is None:
            return False
        target = self.target()
        if seq != self.state.next_seq or target is None:
            return True
        rows = self.backlog.chosen(found)
        if not rows:
            self.state.skip(found.next_seq)
            return True
        room = self.state.room
        limit = min(target.messages, CHUNK, len(rows) if room is None else room)
        if self._pacing.one_by_one:
            limit = 1
            wait_ns = self._pacing.wait_ns(int(found.run.ts[rows[0]]), self._clock.steady_ns())
            if wait_ns:
                await asyncio.sleep(min(wait_ns / 1e9, LONGEST_WAIT_S))
                return True
        if limit:
            self._deliver(target, found, rows, limit)
        return True

    def _deliver(self, target: Target, found: Slice, rows: Sequence[int], limit: int) -> None:
        """Send the first rows, as many as the target accepts, as one buffer."""
        run = found.run
        chosen = rows[:limit]
        seqs, tss = numbers_at(run.seqs, chosen), numbers_at(run.ts, chosen)
        left = max(len(self.backlog) - 1, len(chosen) - 1)
        first = self.state.delivered.consumer_seq + 1
        replies = self.acks.format_run(seqs, tss, first, left, len(chosen))
        deliveries = OutgoingMessages(replies, run.subjects_at(chosen), *self._payload(*run.payloads(chosen)))
        size, is_full = deliveries.size, False
        if size > (CHUNK_BYTES if target.size is None else min(CHUNK_BYTES, target.size)):
            deliveries, is_full = deliveries.within(target.size)
            if not deliveries.datas:
                self.too_large(target)
                return
            size, seqs = deliveries.size, seqs[: len(deliveries.datas)]
        self.state.deliver_run(seqs, self._clock.steady_ns())
        if len(seqs) == len(rows):
            self.state.skip(found.next_seq)
        self.backlog.delivered(len(seqs))
        if size > self._outlet.max_payload - ADDED_BYTES * len(seqs):
            fitting = self._fits(seqs, deliveries)
            if len(fitting) < len(seqs):
                seqs, deliveries = [seqs[row] for row in fitting], deliveries.at(fitting)
                size = deliveries.size
        if seqs:
            self.send(target, deliveries, size)
        if self._pacing.one_by_one:
            self._pacing.sent(tss[0], size, self._clock.steady_ns())
        self._recorder.delivered(self, seqs)
        if is_full:
            # In one write with the messages: the client must not wait for the status that ends its request.
            self.too_large(target)

    def send(self, target: Target, deliveries: OutgoingMessages, size: int) -> None:
        """Send messages to a target and record it, with their size as requests count it."""
        marked = deliveries._replace(headers=self.marked(deliveries.headers))
        self._outlet.deliver(target.subject, *marked)
        self.sent(target, len(deliveries.datas), size)

    def _fits(self, seqs: Sequence[int], deliveries: OutgoingMessages) -> list[int]:
        """Return the rows that the server accepts.

        Any other would end the connection that all consumers share. Such a message stays pending, and is
        tried again like any unacknowledged one.
        """
        rows, larger = deliveries.accepted(self._outlet.max_payload - self.header_bytes)
        for row, size in larger:
            if self.state.delivered_count(seqs[row]) == 1:
                self._consumers.report_undeliverable(self, seqs[row], size)
        return rows

    def too_large(self, target: Target) -> None:
        """Record that the next message exceeds the target's limit of bytes."""

    @property
    def header_bytes(self) -> int:
        """Return an upper bound of what a delivery adds to the headers."""
        return 0

    def marked(self, headers: list[bytes]) -> list[bytes]:
        """Return the headers with what this delivery adds to them."""
        return headers

    def _payload(self, headers: list[bytes], datas: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Return the sent parts of messages: everything, or headers with the size of the data."""
        return headers_only(headers, datas) if self.config.headers_only else (headers, datas)

    def on_removed(self, low: int, high: int, removal: Removal) -> None:
        """Record that the stream removed messages between two sequences."""
        if removal.everything:
            self.state.purge(self.stream.reading.first_seq, self._clock.steady_ns())
            self._recorder.changed(self)
        elif self.state.is_owed and low < self.state.next_seq:
            self.forget(seq for seq in removal.seqs if seq < self.state.next_seq)
        self.backlog.removed(low, high, removal)

    def forget(self, seqs: Iterable[int]) -> None:
        """Settle messages that were removed from the stream, and report those that were pending."""
        gone = self.state.forget(seqs, self._clock.steady_ns())
        for seq, consumer_seq, count in gone:
            self._consumers.advisories.terminated(self, seq, consumer_seq, count, DELETED)
        if gone:
            self._recorder.changed(self)
            self.wake()

    def tick(self, now_ns: int) -> int | None:
        """Do what is due; return the next deadline."""
        if self._closed:
            return None
        if self.state.expire(now_ns):
            self._recorder.changed(self)
        self._consumers.report_given_up(self)
        self.wake()
        return self.next_tick()

    def next_tick(self) -> int | None:
        """Return the next deadline."""
        due = (self.state.next_deadline(), self._pause.next_check())
        return min((d for d in due if d is not None), default=None)

    async def info(self) -> ConsumerInfo:
        """Return the consumer's info."""
        return await info_of(self, self._clock, self._pause)

    def reconfigure(self, config: ConsumerConfig) -> None:
        """Continue with another config."""
        if config.filters != self.config.filters:
            old = self.tally
            self.tally = self._consumers.tallies.join(config.filters)
            self._consumers.rejoined(self, old)
            self._consumers.tallies.leave(old)
            self._feed = Feed(self.stream, self.tally)
            self.backlog.follow(self.tally)
        self.config = config
        self.state.configure(config)
        self._pacing = Pacing(config)
        self._pause = Pause(config.pause_until, self._clock)
        self._recorder.arm(self)
        self.wake()

    async def close(self) -> None:
        """Stop delivering."""
        self._closed = True
        self._consumers.tallies.leave(self.tally)
        await self._pump.close()
        await self._consumers.tallies.tidy()

    def restore(self, recorded: Sequence[bytes]) -> None:
        """Return to a recorded state."""
        self.state = ConsumerState.restore(self.config, recorded, self._clock.steady_ns())
        self.backlog.lose_count()
        self.wake()

    def reset(self, seq: int) -> int:
        """Begin again at a sequence, or after the ack floor; return where."""
        start = self.state.reset(seq)
        self.backlog.restart()
        self._recorder.changed(self)
        self.wake()
        return start

    def heartbeat(self, more: Iterable[tuple[bytes, bytes]] = ()) -> bytes:
        """Return the headers of a heartbeat: the last delivered sequences."""
        return idle_heartbeat(self.state.delivered.consumer_seq, self.state.next_seq - 1, more)

    def on_interest(self) -> None:
        """Check the interest in the deliver subject."""

    def flow_answered(self, subject: bytes, headers: bytes) -> bool:
        """Process a flow control reply; return whether it settled messages."""
        return False

    def confirmed_seq(self, headers: bytes) -> int:
        """Return the sequence up to which a flow control reply settles messages, or 0."""
        return 0

    def pull(self, body: bytes, reply: bytes) -> None:
        """Process a pull request, which only a pull consumer can serve."""
        if reply:
            self._outlet.status(reply, _PUSH_BASED)

    def pull_next(self, body: bytes, reply: bytes) -> None:
        """Process the pull request that came with an ack."""

    def leave_waiting(self) -> None:
        """Answer waiting requests that the engine stops."""

    def deleted(self) -> None:
        """Answer waiting requests that the consumer was deleted."""
