"""A consumer's delivery state: pure, and durable as small changes.

Invariants after every call:
1. Pending messages were delivered, and are neither settled nor given up; first deliveries ascend.
2. Nothing at or below the ack floor is pending; the floor only moves up, except for `reset`.
3. A message that is given up after its last delivery stays counted, so that retention keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headwater.delivery import change
from headwater.delivery.delivery_rules import DeliveryRules
from headwater.delivery.outstanding import NEVER, QUEUED, Delivery, Outstanding, PendingDelivery, Unsettled
from headwater.delivery.redelivered import Redelivered
from headwater.delivery.unwritten import Facts, Unwritten
from headwater.model.consumer import AckPolicy, ConsumerConfig, SequenceInfo


class ConsumerState:
    """The state of one consumer; the caller passes times in nanoseconds."""

    def __init__(self, config: ConsumerConfig, start_seq: int = 1) -> None:
        self._pending = Outstanding()
        """Messages delivered and neither settled nor given up."""
        self._redelivered = Redelivered()
        self._given_up: list[Unsettled] = []
        """Messages that reached max_deliver and were not reported yet."""
        self._unwritten = Unwritten()
        """What the records of this state lack."""
        self._begin(start_seq)
        self.configure(config)

    def _begin(self, start_seq: int) -> None:
        self._consumer_seq: int = 0
        self._stream_seq: int = start_seq - 1
        self._next_seq: int = start_seq
        self._floor_consumer: int = 0
        self._floor_stream: int = start_seq - 1
        self._delivered_at: int = 0
        self._acked_at: int = 0

    def configure(self, config: ConsumerConfig) -> None:
        """Continue with another config; delivered messages keep their deadlines."""
        self._policy = config.ack_policy
        self._rules = DeliveryRules.of(config)

    @property
    def delivered(self) -> SequenceInfo:
        """Return the last delivered sequences."""
        return SequenceInfo(self._consumer_seq, self._stream_seq, self._delivered_at)

    @property
    def ack_floor(self) -> SequenceInfo:
        """Return the ack floor."""
        return SequenceInfo(self._floor_consumer, self._floor_stream, self._acked_at)

    @property
    def next_seq(self) -> int:
        """Return the first sequence that was not considered for a first delivery yet."""
        return self._next_seq

    @property
    def num_ack_pending(self) -> int:
        """Return how many messages wait for their ack."""
        return len(self._pending)

    @property
    def is_owed(self) -> bool:
        """Return whether anything delivered is unsettled, or was given up."""
        return bool(self._pending.entries or self._redelivered.counts)

    @property
    def num_queued(self) -> int:
        """Return how many messages are queued for redelivery."""
        return self._pending.num_queued

    @property
    def num_redelivered(self) -> int:
        """Return how many unsettled messages were delivered more than once or given up."""
        # With max_deliver 1 nothing is redelivered, and given-up messages are not shown as redelivered.
        return 0 if self._rules.delivers_once else len(self._redelivered)

    @property
    def room(self) -> int | None:
        """Return how many new messages may be delivered, or None without a limit."""
        return self._rules.room(len(self._pending))

    def pending(self, seq: int) -> PendingDelivery | None:
        """Return the unsettled delivery of a message, or None."""
        entry = self._pending.entries.get(seq)
        return None if entry is None else PendingDelivery(*entry)

    def pending_through(self, seq: int) -> list[int]:
        """Return the unsettled messages up to this one, ascending."""
        return self._pending.below(seq + 1)

    def delivered_count(self, seq: int) -> int:
        """Return how often a delivered message was delivered; 1 for a settled one, too."""
        return max(self._redelivered.get(seq) + (seq in self._pending), 1)

    def needs(self, seq: int) -> bool:
        """Return whether retention must keep the message for this consumer, regardless of its filter."""
        if seq in self._redelivered:
            return True
        if seq <= self._floor_stream:
            return False
        return self._policy is not AckPolicy.EXPLICIT or seq >= self._next_seq or seq in self._pending

    def has_settled(self, seq: int) -> bool:
        """Return whether the message was delivered and settled, regardless of the filter."""
        return self._rules.takes_all and seq < self._next_seq and not self.needs(seq)

    def deliver(self, seq: int, now: int) -> Delivery:
        """Record the delivery of a message, the first or a further one."""
        if seq not in self._pending:
            return Delivery(self.deliver_run((seq,), now), 1)
        count = self._redelivered.get(seq) + 1
        self._count(seq, count)
        self._consumer_seq += 1
        self._delivered_at = now
        self._pending.arm(seq, now, self._rules.deadline(count, now))
        self._unwritten.touch(seq)
        return Delivery(self._consumer_seq, count + 1)

    def deliver_run(self, seqs: Sequence[int], now: int) -> int:
        """Record first deliveries; return the consumer sequence of the first."""
        assert seqs[0] > self._stream_seq, "first deliveries ascend"
        start = self._consumer_seq + 1
        self._consumer_seq += len(seqs)
        self._stream_seq = seqs[-1]
        self._next_seq = max(self._next_seq, self._stream_seq + 1)
        self._delivered_at = now
        self._unwritten.is_dirty = True
        if self._policy is AckPolicy.NONE:
            self._floor_consumer, self._floor_stream = self._consumer_seq, self._stream_seq
        else:
            self._pending.add_run(seqs, start, now, self._rules.deadline(0, now))
            self._unwritten.touched.update(seqs)
        return start

    def skip(self, seq: int) -> None:
        """Record that no message below this sequence is left for a first delivery."""
        if seq > self._next_seq:
            self._next_seq = seq
            self._unwritten.is_dirty = True

    def next_redelivery(self) -> int | None:
        """Return the next redelivery, which precedes new messages, or None; it stays queued until delivered.

        Messages before it that reached max_deliver are given up. As in nats-server that happens when their
        turn comes, so they are pending for as long as there is no demand.
        """
        while (seq := self._pending.first_queued()) is not None and self._spent(seq):
            self._give_up(seq)
        return seq

    def ack(self, seq: int, consumer_seq: int, now: int) -> bool:
        """Settle a message, or all up to it, depending on the policy; return whether that changed anything.

        Terminating a message (`+TERM`) is the same for the state.
        """
        if self._policy is AckPolicy.EXPLICIT:
            return self._settle(seq, now)
        return self._policy is not AckPolicy.NONE and self._settle_through(seq, consumer_seq, now)

    def ack_each(self, seqs: Sequence[int], now: int) -> Sequence[int]:
        """Settle each of the messages, as with the explicit policy; return those that were pending."""
        if self._redelivered.counts or self._pending.num_queued:
            return [seq for seq in seqs if self._settle(seq, now)]
        settled = self._pending.pop_each(seqs)
        if settled:
            self._acked_at = now
            self._unwritten.touched.update(settled)
            self._left(min(settled))
        return settled

    def nak(self, seq: int, delay: int | None, now: int) -> bool:
        """Redeliver a message, at once or after the delay; return whether it was pending."""
        if seq not in self._pending:
            return False
        if delay is not None and delay > 0:
            self._pending.arm(seq, self._pending.entries[seq][1], now + delay)
            self._unwritten.touch(seq)
        elif self._pending.entries[seq][2] != QUEUED:
            self._enqueue(seq)
        return True

    def progress(self, seq: int, now: int) -> bool:
        """Restart the ack wait; return whether the message was pending."""
        if seq not in self._pending:
            return False
        self._pending.postpone(seq, now, self._rules.deadline(self._redelivered.get(seq), now))
        self._unwritten.touch(seq)
        return True

    def next_deadline(self) -> int | None:
        """Return when `expire` may have something to do, or None for never."""
        return self._pending.next_deadline()

    def expire(self, now: int) -> list[int]:
        """Queue what is due for redelivery, lowest sequence first, and return it.

        With max_deliver 1 it is given up instead.
        """
        due = self._pending.due(now)
        for seq in due:
            if self._rules.delivers_once:
                self._give_up(seq)
            else:
                self._enqueue(seq)
        return [] if self._rules.delivers_once else due

    def take_given_up(self) -> list[Unsettled]:
        """Return and remove the messages that reached max_deliver and were never settled."""
        given_up, self._given_up = self._given_up, []
        return given_up

    def forget(self, seqs: Iterable[int], now: int) -> list[Unsettled]:
        """Settle messages that the stream has removed; return those that were pending."""
        gone = []
        for seq in seqs:
            entry, count = self._pending.entries.get(seq), self.delivered_count(seq)
            if self._settle(seq, now) and entry is not None:
                gone.append(Unsettled(seq, entry[0], count))
        return gone

    def forget_below(self, first_seq: int, now: int) -> list[Unsettled]:
        """Settle what is below the stream's first sequence; return what was pending there."""
        gone = self.forget(self._pending.below(first_seq), now)
        self._uncount_below(first_seq)
        return gone

    def purge(self, first_seq: int, now: int) -> list[Unsettled]:
        """Continue at a sequence below which the stream was purged; return what was pending below it."""
        gone = self.forget_below(first_seq, now)
        self._next_seq = max(self._next_seq, first_seq)
        self._stream_seq = self._next_seq - 1
        if self._pending:
            self._floor_stream = max(self._floor_stream, first_seq - 1)
        else:
            self._floor_consumer, self._floor_stream = self._consumer_seq, self._stream_seq
        self._unwritten.is_dirty = True
        return gone

    def reset(self, seq: int = 0) -> int:
        """Begin again at this sequence, or after the ack floor; return where."""
        start = max(seq or self._floor_stream + 1, 1)
        self._pending.clear()
        self._redelivered.load({})
        self._begin(start)
        self._unwritten.everything()
        return start

    @classmethod
    def restore(cls, config: ConsumerConfig, changes: Iterable[bytes], now: int = NEVER) -> ConsumerState:
        """Return the state that a dump and the changes after it describe.

        Times in the future were recorded before the clock was set back. They are set to now, so that
        deadlines do not take longer than intended.
        """
        state = cls(config)
        for data in changes:
            state.apply(data)
        state._pending.set_back(now)
        state._delivered_at = min(state._delivered_at, now)
        state._acked_at = min(state._acked_at, now)
        return state

    def dump(self) -> bytes:
        """Return the complete state; later changes build on it."""
        self._unwritten.everything()
        data = self.take_delta()
        assert data is not None
        return data

    def snapshot(self) -> bytes:
        """Return the complete state; later changes build on it as well as on the previous record."""
        return change.encode(self._unwritten.snapshot(self._facts()))

    def must_be_written(self) -> None:
        """Have the next change contain the complete state, because earlier changes were lost."""
        self._unwritten.everything()

    def take_delta(self) -> bytes | None:
        """Return what has changed since the last call, or None; `apply` replays it to this state."""
        if not self._unwritten.is_dirty:
            return None
        written = self._unwritten.change(self._facts())
        self._unwritten.written(self._stream_seq)
        return change.encode(written)

    def apply(self, data: bytes) -> None:
        """Replay a change of another state."""
        new = change.decode(data)
        pending = {} if new.whole else self._pending.entries
        counts = {} if new.whole else self._redelivered.counts
        self._consumer_seq, self._stream_seq, self._delivered_at = new.delivered
        self._floor_consumer, self._floor_stream, self._acked_at = new.ack_floor
        self._next_seq = new.next_seq
        for seq in new.settled:
            pending.pop(seq, None)
        for seq in new.uncounted:
            counts.pop(seq, None)
        self._pending.load(pending | new.pending)
        self._redelivered.load(counts | new.counted)
        self._unwritten.written(self._stream_seq)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConsumerState):
            return NotImplemented
        return self._facts() == other._facts()

    __hash__ = None  # type: ignore[assignment]

    def _facts(self) -> Facts:
        return Facts(
            (self._consumer_seq, self._stream_seq, self._delivered_at),
            (self._floor_consumer, self._floor_stream, self._acked_at),
            self._next_seq,
            self._pending.entries,
            self._redelivered.counts,
        )

    def _count(self, seq: int, count: int) -> None:
        self._redelivered.set(seq, count)
        self._unwritten.recount(seq)

    def _uncount_below(self, seq: int) -> None:
        self._unwritten.recount(*self._redelivered.pop_below(seq))

    def _spent(self, seq: int) -> bool:
        """Return whether a pending message has reached max_deliver."""
        return self._rules.is_last(self._redelivered.get(seq) + 1)

    def _enqueue(self, seq: int) -> None:
        self._pending.enqueue(seq)
        self._unwritten.touch(seq)

    def _give_up(self, seq: int) -> None:
        count = self._redelivered.get(seq) + 1
        self._given_up.append(Unsettled(seq, self._pending.entries[seq][0], count))
        self._count(seq, count)
        self._pending.pop(seq)
        self._left(seq)

    def _settle(self, seq: int, now: int) -> bool:
        """Settle one message; return whether it was pending or given up."""
        entry = self._pending.pop(seq)
        counted = self._redelivered.pop(seq)
        if counted:
            self._unwritten.recount(seq)
            self._acked_at = now
        if entry is not None:
            self._acked_at = now
            self._left(seq)
        return counted or entry is not None

    def _settle_through(self, seq: int, consumer_seq: int, now: int) -> bool:
        """Settle all messages up to this one; return whether that changed anything.

        A client that has not received anything yet sends a consumer sequence of 0, which settles nothing.
        """
        if not consumer_seq or not self._floor_stream < seq <= self._stream_seq:
            return False
        for settled in self._pending.below(seq + 1):
            self._pending.pop(settled)
            self._unwritten.touched.add(settled)
        self._uncount_below(seq + 1)
        self._floor_consumer = min(max(self._floor_consumer, consumer_seq), self._consumer_seq)
        self._floor_stream = seq
        self._acked_at = now
        self._unwritten.is_dirty = True
        return True

    def _left(self, seq: int) -> None:
        """Move the floor if a message that is no longer pending was the one that kept it down."""
        self._unwritten.touch(seq)
        lowest = self._pending.lowest()
        if lowest is None:
            self._floor_consumer, self._floor_stream = self._consumer_seq, self._stream_seq
        elif seq < lowest:
            before = self._pending.entries[lowest][0] - 1
            self._floor_consumer = max(self._floor_consumer, before)
            self._floor_stream = max(self._floor_stream, lowest - 1)
