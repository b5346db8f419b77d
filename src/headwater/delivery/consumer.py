"""One consumer: what push and pull share, from the next message to its acknowledgement.

1. Somebody wants messages: a pull request waits, or the deliver subject has interest.
2. The pump takes what must be delivered again, then what comes next in the stream, a run at a time.
3. The state records the deliveries, the outlet sends them as one buffer.
4. Acknowledgements settle them; what changed is recorded in the stream's log.

A crash before the record: the messages are delivered again. An ack is confirmed only after its record.
A consumer that wants nothing, or is at the end of the stream, has no task and costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from headwater.delivery.feed import Feed, Slice
from headwater.delivery.pacing import Pacing
from headwater.delivery.state import ConsumerState, Unsettled
from headwater.errors import Error
from headwater.model import headers as header_block
from headwater.model.consumer import AckPolicy, ConsumerConfig, ConsumerInfo
from headwater.model.message import Message
from headwater.stream.removal import Removal
from headwater.wire.ack_body import AckBody, AckKind
from headwater.wire.ack_subject import AckSubjects

if TYPE_CHECKING:
    from headwater.delivery.consumers import StreamConsumers

logger = logging.getLogger(__name__)

CHUNK = 1024
"""How many messages go out in one buffer, at the most."""
CHUNK_BYTES = 1 << 20
LONGEST_WAIT_S = 1.0
_PUSH_BASED = header_block.build(code=409, description=b"Consumer is push based")


class Target(NamedTuple):
    """Where the next messages go, and how many of them may."""

    subject: bytes
    messages: int
    size: int | None = None
    """Bytes that may still go there, counted as pull requests count them; None without a bound."""


class Consumer:
    """A consumer of one stream; everything runs on the event loop."""

    def __init__(
        self,
        config: ConsumerConfig,
        created_ns: int,
        state: ConsumerState,
        consumers: StreamConsumers,
        *,
        undelivered: int | None,
        only: Sequence[int] = (),
    ) -> None:
        self.config = config
        self.created_ns = created_ns
        self.state = state
        self.stream = consumers.stream
        self.acks = AckSubjects(consumers.stream.name, config.name)
        self.tally = consumers.tallies.join(config.filters)
        self._consumers = consumers
        self._outlet = consumers.outlet
        self._clock = consumers.clock
        self._feed = Feed(consumers.stream, self.tally)
        self._pacing = Pacing(config)
        self._only = list(only)
        """With `last_per_subject`: the sequences to deliver of what was there at the start."""
        self._undelivered = undelivered
        """What waited when last counted; None when it must be counted anew."""
        self._counted_at = self.tally.stored
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def name(self) -> str:
        """Return the consumer's name."""
        return self.config.name

    @property
    def is_recorded(self) -> bool:
        """Return whether the state survives a restart."""
        return not self.config.mem_storage and not self.config.direct

    @property
    def is_paused(self) -> bool:
        """Return whether deliveries wait for a time to come."""
        until = self.config.pause_until
        return until is not None and until > self._clock.now_ns()

    def target(self) -> Target | None:
        """Return who gets the next messages, or None while nobody does."""
        raise AssertionError("push and pull say")

    def sent(self, target: Target, count: int, size: int) -> None:
        """Take note of what went to a target."""
        raise AssertionError("push and pull say")

    def at_end(self) -> None:
        """Take note that nothing is left to deliver for now."""

    def num_waiting(self) -> int:
        """Return how many pull requests wait."""
        return 0

    def is_bound(self) -> bool:
        """Return whether the deliver subject of a push consumer has interest."""
        return False

    def wake(self) -> None:
        """Deliver, if somebody wants messages."""
        if self._task is None and not self._closed and self.target() is not None:
            self._task = asyncio.create_task(self._pump(), name=f"{self.stream.name} > {self.name}")
            self._task.add_done_callback(self._pumped)

    def _pumped(self, task: asyncio.Task[None]) -> None:
        self._task = None
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        if isinstance(error, Error):
            logger.error("consumer %s of %s: %s", self.name, self.stream.name, error)
        else:
            logger.error("consumer %s of %s failed", self.name, self.stream.name, exc_info=error)
        self._consumers.retry_soon(self)

    async def _pump(self) -> None:
        while (target := self.target()) is not None:
            if self.must_be_counted:
                await self.recount()
            if self.state.next_redelivery() is not None:
                await self._deliver_again(target)
            elif not await self._deliver_next(target):
                self.at_end()
                break
            await self._outlet.writable()
        self._consumers.report_given_up(self)
        self._consumers.arm(self)

    async def _deliver_again(self, target: Target) -> None:
        seq = self.state.next_redelivery()
        assert seq is not None
        message = await self.stream.message(seq)
        if message is None:
            self.settle_removed([seq])
            return
        if self.target() != target or self.state.next_redelivery() != seq:
            return  # settled, or nobody there any more, while it was read
        now_ns = self._clock.now_ns()
        delivery = self.state.deliver(seq, now_ns)
        reply = self.acks.format(
            delivery.delivered_count, seq, delivery.consumer_seq, message.ts, self.undelivered()
        )
        self._send_one(target, message, reply)
        self._consumers.changed(self)

    def _send_one(self, target: Target, message: Message, reply: bytes) -> None:
        headers, datas = self._payload([message.headers], [message.data])
        headers = self.marked(headers)
        self._outlet.deliver(target.subject, [reply], [message.subject], headers, datas)
        size = len(message.subject) + len(reply) + len(headers[0]) + len(datas[0])
        self.sent(target, 1, size)

    async def _deliver_next(self, target: Target) -> bool:
        """Deliver what comes next; return False at the end of the stream or when there is no room."""
        room = self.state.room
        if room == 0:
            return False
        seq = self.state.next_seq
        found = self._feed.resident(seq) or await self._feed.read(seq)
        if found is None:
            return False
        if seq != self.state.next_seq:
            return True
        rows = self._wanted(found)
        if not rows:
            self.state.skip(found.next_seq)
            return True
        current = self.target()
        if current is None:
            return True
        limit = min(current.messages, CHUNK, len(rows) if room is None else room)
        if self._pacing.one_by_one:
            limit = 1
            wait_ns = self._pacing.wait_ns(int(found.run.ts[rows[0]]), self._clock.now_ns())
            if wait_ns:
                await asyncio.sleep(min(wait_ns / 1e9, LONGEST_WAIT_S))
                return True
        self._deliver(current, found, rows, limit)
        return True

    def _wanted(self, found: Slice) -> list[int]:
        if not self._only:
            return found.rows
        seqs = found.run.seqs
        while self._only and self._only[0] < self.state.next_seq:
            self._only.pop(0)
        last_start = self._last_start
        chosen = set(self._only)
        return [row for row in found.rows if (s := int(seqs[row])) > last_start or s in chosen]

    @property
    def _last_start(self) -> int:
        return self._only[-1] if self._only else 0

    def _deliver(self, target: Target, found: Slice, rows: list[int], limit: int) -> None:
        """Send the first rows, as many as the target takes, as one buffer."""
        run = found.run
        chosen = rows[:limit]
        headers, datas = self._payload(*run.payloads(chosen))
        subjects = run.subjects
        stored_subjects = [subjects[row] for row in chosen]
        seqs = run.seqs[chosen].tolist()
        left = self.undelivered()
        count = self._fitting(target, stored_subjects, headers, datas)
        if not count:
            self.too_large(target)
            return
        if count < len(chosen):
            chosen, seqs = chosen[:count], seqs[:count]
            stored_subjects, headers, datas = stored_subjects[:count], headers[:count], datas[:count]
        first = self.state.deliver_run(seqs, self._clock.now_ns())
        if count == len(rows):
            self.state.skip(found.next_seq)
        replies = self.acks.format_run(seqs, run.ts[chosen].tolist(), first, max(left - 1, count - 1), count)
        self._count_delivered(count)
        headers = self.marked(headers)
        size = self._outlet.deliver(target.subject, replies, stored_subjects, headers, datas)
        if self._pacing.one_by_one:
            self._pacing.sent(int(run.ts[chosen[0]]), size, self._clock.now_ns())
        if target.size is not None:
            size = _pull_size(replies, stored_subjects, headers, datas)
        self.sent(target, count, size)
        self._consumers.delivered(self, seqs)

    def _fitting(
        self,
        target: Target,
        subjects: Sequence[bytes],
        headers: Sequence[bytes],
        datas: Sequence[bytes],
    ) -> int:
        """Return how many of the messages fit into what the target takes and into one buffer."""
        size = 0
        limit = target.size
        overhead = len(self.acks.key) + 64
        for index, (subject, block, data) in enumerate(zip(subjects, headers, datas, strict=True)):
            size += len(subject) + len(block) + len(data) + overhead
            if limit is not None and size > limit:
                return index
            if size > CHUNK_BYTES:
                return index + 1
        return len(datas)

    def too_large(self, target: Target) -> None:
        """Take note that the next message does not fit into what the target takes."""

    def marked(self, headers: list[bytes]) -> list[bytes]:
        """Return the headers with what this delivery adds to them."""
        return headers

    def _payload(self, headers: list[bytes], datas: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Return what is sent of messages: all, or their headers with the size of their data."""
        if not self.config.headers_only:
            return headers, datas
        sized = [
            header_block.add(block, b"Nats-Msg-Size", b"%d" % len(data))
            for block, data in zip(headers, datas, strict=True)
        ]
        return sized, [b""] * len(datas)

    def undelivered(self) -> int:
        """Return how many messages wait for their first delivery."""
        if not self.config.filters and not self._only:
            return self.stream.live_between(self.state.next_seq, self.stream.durable_seq)
        if self._undelivered is None:
            return 0
        self._undelivered += self.tally.stored - self._counted_at
        self._counted_at = self.tally.stored
        return max(self._undelivered, 0)

    def _count_delivered(self, count: int) -> None:
        if self._undelivered is not None:
            self._undelivered -= count

    @property
    def must_be_counted(self) -> bool:
        """Return whether what waits is not known."""
        return self._undelivered is None and bool(self.config.filters or self._only)

    async def recount(self) -> None:
        """Count anew what waits, after messages were removed that may have been waiting."""
        if self._only:
            self._undelivered = len(self._only)
            self._counted_at = self.tally.stored
        elif self.must_be_counted:
            counted_at = self.tally.stored
            count = await self.stream.pending(self.state.next_seq, self.config.filters)
            self._undelivered, self._counted_at = count, counted_at

    def must_recount(self) -> None:
        """Have what waits counted anew when it is next asked for."""
        self._undelivered = None

    def on_removed(self, low: int, high: int, removal: Removal) -> None:
        """Take note that the stream has lost messages between two sequences."""
        if self.state.num_ack_pending and low < self.state.next_seq:
            self._forget(removal)
        if high < self.state.next_seq:
            return
        if low >= self.state.next_seq and not removal.everything and not self._only:
            if self._undelivered is not None:
                self._undelivered -= self.tally.sum(removal.subjects)
        else:
            self._undelivered = None

    def _forget(self, removal: Removal) -> None:
        if removal.everything:
            gone = self.state.forget_below(self.stream.first_seq, self._clock.now_ns())
        else:
            pending = [seq for seq in removal.seqs if seq < self.state.next_seq]
            gone = self.state.forget(pending, self._clock.now_ns())
        if gone:
            self._consumers.changed(self)
            self.wake()

    def settle_removed(self, seqs: Sequence[int]) -> list[Unsettled]:
        """Have messages that are gone from the stream count as settled."""
        gone = self.state.forget(seqs, self._clock.now_ns())
        if gone:
            self._consumers.changed(self)
        return gone

    def acknowledge(self, ack: AckBody, seq: int, consumer_seq: int) -> bool:
        """Take an acknowledgement; return whether it settled anything."""
        now_ns = self._clock.now_ns()
        state = self.state
        if ack.kind is AckKind.NAK:
            if state.nak(seq, ack.delay_ns, now_ns):
                self._consumers.arm(self)
                self.wake()
            return False
        if ack.kind is AckKind.PROGRESS:
            state.progress(seq, now_ns)
            self._consumers.arm(self)
            return False
        if ack.kind is AckKind.UNKNOWN:
            return False
        if ack.kind is AckKind.TERM:
            settled = bool(state.forget([seq], now_ns))
        else:
            settled = state.ack(seq, consumer_seq, now_ns)
        if settled:
            self.wake()
        return settled

    def needs(self, seq: int, subject: bytes) -> bool:
        """Return whether the stream must keep a message for this consumer."""
        return self.tally.takes(subject) and self.state.needs(seq)

    def tick(self, now_ns: int) -> int | None:
        """Do what is due; return when the next thing is."""
        if self._closed:
            return None
        if self.state.expire(now_ns):
            self._consumers.changed(self)
        self._consumers.report_given_up(self)
        self.wake()
        return self.next_tick()

    def next_tick(self) -> int | None:
        """Return when the next deadline is."""
        due = [self.state.next_deadline()]
        if self.is_paused:
            due.append(self.config.pause_until)
        return min((d for d in due if d is not None), default=None)

    async def info(self) -> ConsumerInfo:
        """Return how the consumer stands."""
        await self.stream.settled()
        await self.recount()
        now_ns = self._clock.now_ns()
        until = self.config.pause_until or 0
        return ConsumerInfo(
            stream_name=self.stream.name,
            name=self.name,
            created=self.created_ns,
            config=self.config,
            delivered=self.state.delivered,
            ack_floor=self.state.ack_floor,
            num_ack_pending=self.state.num_ack_pending,
            num_redelivered=self.state.num_redelivered,
            num_waiting=self.num_waiting(),
            num_pending=self.undelivered(),
            push_bound=self.is_bound(),
            paused=self.is_paused,
            pause_remaining=max(until - now_ns, 0),
            ts=now_ns,
        )

    def reconfigure(self, config: ConsumerConfig) -> None:
        """Go on with another config."""
        if config.filters != self.config.filters:
            old = self.tally
            self.tally = self._consumers.tallies.join(config.filters)
            self._consumers.rejoined(self, old)
            self._feed = Feed(self.stream, self.tally)
            self._undelivered = None
        self.config = config
        self.state.configure(config)
        self._pacing = Pacing(config)
        self._consumers.arm(self)
        self.wake()

    async def close(self) -> None:
        """Deliver nothing more."""
        self._closed = True
        self._consumers.tallies.leave(self.tally)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def restore(self, recorded: Sequence[bytes]) -> None:
        """Go back to a recorded state."""
        self.state = ConsumerState.restore(self.config, recorded)
        self._undelivered = None
        self.wake()

    def reset(self, seq: int) -> int:
        """Begin anew at a sequence, or after the ack floor; return where."""
        start = self.state.reset(seq)
        self._undelivered = None
        self._consumers.changed(self)
        self.wake()
        return start

    def on_interest(self) -> None:
        """Look who listens on the deliver subject."""

    def flow_answered(self, subject: bytes, headers: bytes) -> bool:
        """Take an answer to a flow-control request; return whether it settled messages."""
        return False

    def pull(self, body: bytes, reply: bytes) -> None:
        """Take a pull request, which only a pull consumer can serve."""
        if reply:
            self._outlet.status(reply, _PUSH_BASED)

    def pull_next(self, body: bytes, reply: bytes) -> None:
        """Take the pull request that came with an acknowledgement."""

    def leave_waiting(self) -> None:
        """Tell those who wait that the engine stops."""

    def deleted(self) -> None:
        """Tell those who wait that the consumer is gone."""

    @property
    def settles_single(self) -> bool:
        """Return whether an acknowledgement settles one message, not all up to it."""
        return self.config.ack_policy is AckPolicy.EXPLICIT

    @cached_property
    def sample_percent(self) -> int:
        """Return for how many acknowledgements of a hundred the time is told."""
        text = self.config.sample_freq.removesuffix("%")
        return int(text) if text.isdigit() else 0

    def last_delivered_ns(self, seq: int) -> int:
        """Return when a pending message was last sent; now if it is not pending."""
        pending = self.state.pending(seq)
        return pending.delivered_ns if pending is not None else self._clock.now_ns()

    @property
    def acks_at_delivery(self) -> bool:
        """Return whether a message counts as settled when it is sent."""
        return self.config.ack_policy is AckPolicy.NONE


def _pull_size(*columns: Sequence[bytes]) -> int:
    """Return the bytes of messages as pull requests count them."""
    return sum(sum(map(len, column)) for column in columns)
