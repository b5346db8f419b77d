"""Sends a channel's messages to one flow: redeliveries first, then new messages, while there is room.

Messages in memory are sent at once. A task takes over if messages must be read from disk or the server is
slow, so that a long backlog does not delay other flows.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import cast

from headwater.clock import Clock
from headwater.delivery.feed import Feed, Slice
from headwater.delivery.tallies import SubjectTally
from headwater.delivery.timers import Timers
from headwater.errors import Error
from headwater.model import headers as header_block
from headwater.model.message import Message
from headwater.model.run import numbers_at
from headwater.stan.flow import Member, Redelivery
from headwater.stan.outbox import Outbox
from headwater.stan.subscription import SharedFlow, StanSubscription
from headwater.stream.stream import Stream
from headwater.wire.stan_frames import deliveries, payload_bytes

logger = logging.getLogger(__name__)

REPLY_HEADER = b"Headwater-Stan-Reply"
"""The header that stores the reply subject of a STAN client's message."""
SLICES_AT_ONCE = 4
MAX_ENCODED = 4096
RETRY_NS = 1_000_000_000


class Encoded:
    """A cache of a channel's newest messages, so that each is encoded once for all subscriptions."""

    def __init__(self, channel: str) -> None:
        self._channel = channel.encode()
        self._frames: dict[int, bytes] = {}
        """A cache of encoded messages, by sequence."""
        self.is_worth_it = False
        """Whether several flows deliver the same messages."""

    def frames(self, slice_: Slice, rows: Sequence[int], seqs: Sequence[int]) -> list[bytes]:
        """Return messages encoded for their first delivery."""
        if not self.is_worth_it:
            return self._encode(slice_, rows, seqs)
        known = self._frames
        found = list(map(known.get, seqs))
        missing = found.index(None) if None in found else len(found)
        if missing < len(found):
            if len(known) > MAX_ENCODED:
                known.clear()
            new = self._encode(slice_, rows[missing:], seqs[missing:])
            known.update(zip(seqs[missing:], new, strict=True))
            found[missing:] = new
        return cast("list[bytes]", found)

    def doubted(self, slice_: Slice, rows: Sequence[int], seqs: Sequence[int]) -> list[bytes]:
        """Return messages encoded as redeliveries, because they may have been sent before a crash."""
        return self._encode(slice_, rows, seqs, 1)

    def again(self, message: Message, count: int) -> bytes:
        """Return a message encoded for a redelivery, after `count` deliveries."""
        columns = ([message.seq], [message.ts], [reply_of(message.headers)], [message.data])
        return deliveries(self._channel, *columns, count)[0]

    def _encode(
        self, slice_: Slice, rows: Sequence[int], seqs: Sequence[int], redelivered: int = 0
    ) -> list[bytes]:
        headers, datas = slice_.run.payloads(rows)
        times = numbers_at(slice_.run.ts, rows)
        replies = [reply_of(header) if header else b"" for header in headers]
        return deliveries(self._channel, seqs, times, replies, datas, redelivered)


def reply_of(headers: bytes) -> bytes:
    """Return the reply subject of a stored message."""
    reply = header_block.get(headers, REPLY_HEADER) if headers else None
    # A header may contain any bytes, but clients expect text.
    return reply.decode(errors="replace").encode() if reply else b""


class Sender:
    """Sends the messages of one flow. Call `wake` when there may be something to send."""

    def __init__(
        self,
        shared: SharedFlow,
        stream: Stream,
        encoded: Encoded,
        outbox: Outbox,
        timers: Timers,
        clock: Clock,
        changed: Callable[[SharedFlow], None],
    ) -> None:
        self.shared = shared
        self._stream = stream
        self._encoded = encoded
        self._feed = Feed(stream, SubjectTally(()))
        self._outbox = outbox
        self._timers = timers
        self._clock = clock
        self._changed = changed
        """Called when the flow's position changes."""
        self._task: asyncio.Task[None] | None = None
        """Reads and sends; None while all that can be sent is."""
        self._timed_ns: int | None = None
        """For when the timer of redeliveries is set; None while it is not."""
        self._closed = False

    def wake(self) -> None:
        """Send as many messages as possible."""
        if self._task is None and not self._closed and not self._sent_at_once():
            self._task = asyncio.create_task(self._run(), name=f"send {self.shared.key}")
        self._arm()

    def tick(self, now_ns: int) -> int | None:
        """Redeliver messages whose ack wait has expired."""
        self._timed_ns = None
        if self._task is None and not self._closed:
            self._task = asyncio.create_task(self._run(), name=f"send {self.shared.key} again")
        return None

    def close(self) -> None:
        """Stop sending."""
        self._closed = True
        self._timers.forget(self)
        if self._task is not None:
            self._task.cancel()

    def _arm(self) -> None:
        """Set the timer for redeliveries; it may fire early, but not after the next expiry."""
        flow, now_ns = self.shared.flow, self._clock.steady_ns()
        if self._closed or self._task is not None or not flow.members:
            return
        soonest_ns = now_ns + min(member.ack_wait_ns for member in flow.members)
        if self._timed_ns is not None and self._timed_ns <= soonest_ns:
            return
        due_ns = flow.next_due_ns(now_ns)
        if due_ns is not None:
            self._time(due_ns)

    def _time(self, due_ns: int) -> None:
        self._timed_ns = due_ns
        self._timers.at(due_ns, self)

    def _sent_at_once(self) -> bool:
        """Send new messages that are in memory; return whether nothing is left to send."""
        flow = self.shared.flow
        for _ in range(SLICES_AT_ONCE):
            room = flow.room()
            if room == 0 or flow.last_sent >= self._stream.reading.durable_seq:
                return not flow.has_unheld
            found = self._feed.resident(flow.last_sent + 1)
            if found is None:
                return False
            self._send(found, room)
        return False

    async def _run(self) -> None:
        try:
            await self._send_all()
        except Error as error:
            logger.error("channel %s: cannot read messages to send: %s", self.shared.key.channel, error)
            self._time(self._clock.steady_ns() + RETRY_NS)
        finally:
            self._task = None
        self._arm()

    async def _send_all(self) -> None:
        flow = self.shared.flow
        while not self._closed:
            for again in flow.due(self._clock.steady_ns()):
                await self._send_again(again)
                await self._outbox.writable()
            room, durable_seq = flow.room(), self._stream.reading.durable_seq
            if room == 0 or flow.last_sent >= durable_seq:
                return
            found = await self._feed.read(flow.last_sent + 1)
            room = flow.room()
            if found is not None and room and found.next_seq > flow.last_sent:
                self._send(found, room)
            elif found is None:
                flow.last_sent = max(flow.last_sent, durable_seq)
            await self._outbox.writable()
            await asyncio.sleep(0)

    def _send(self, found: Slice, room: int) -> None:
        rows, through_seq = found.rows, found.next_seq - 1
        if len(rows) > room:
            rows = rows[:room]
            through_seq = int(found.run.seqs[rows[-1]])
        flow = self.shared.flow
        seqs = numbers_at(found.run.seqs, rows)
        shares = flow.send(seqs, through_seq, self._clock.steady_ns())
        frames = self._frames(found, rows, seqs) if seqs else []
        by_seq = dict(zip(seqs, frames, strict=True)) if len(shares) > 1 else {}
        for member, share in shares:
            self._deliver(member, share, [by_seq[seq] for seq in share] if by_seq else frames)
        self._changed(self.shared)

    def _frames(self, found: Slice, rows: Sequence[int], seqs: Sequence[int]) -> list[bytes]:
        """Return new messages encoded; those that may have been sent before a crash as redeliveries."""
        doubted = bisect_right(seqs, self.shared.flow.doubted_through)
        encoded = self._encoded
        again = encoded.doubted(found, rows[:doubted], seqs[:doubted]) if doubted else []
        return again + encoded.frames(found, rows[doubted:], seqs[doubted:]) if doubted < len(seqs) else again

    def _deliver(self, member: Member, seqs: Sequence[int], frames: list[bytes]) -> None:
        """Send messages. One that exceeds the server's limit is skipped, because it could never arrive."""
        limit = self._outbox.max_payload
        if max(map(len, frames)) > limit:
            frames = [f for seq, f in zip(seqs, frames, strict=True) if self._fits(member, seq, f, limit)]
        self._outbox.deliver(self._inbox(member), frames)

    def _fits(self, member: Member, seq: int, frame: bytes, limit: int) -> bool:
        if payload_bytes([frame]) <= limit:
            return True
        logger.error("channel %s: message %d is too large to send", self.shared.key.channel, seq)
        self.shared.flow.acknowledge(member, seq)
        return False

    async def _send_again(self, again: Redelivery) -> None:
        message = self._feed.resident_message(again.seq) or await self._feed.message(again.seq)
        flow = self.shared.flow
        if message is None:
            # Removed by the channel's limits: there is nothing to redeliver.
            flow.acknowledge(again.member, again.seq)
        elif again.seq in again.member.again:
            self._deliver(again.member, [again.seq], [self._encoded.again(message, again.count)])
        self._changed(self.shared)

    def _inbox(self, member: Member) -> bytes:
        return self._subscription(member).inbox.encode()

    def _subscription(self, member: Member) -> StanSubscription:
        return next(s for s in self.shared.subscriptions if s.member is member)
