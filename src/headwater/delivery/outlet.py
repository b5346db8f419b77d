"""Sending to subscribers: whole buffers through the leaf connection, and the interest known there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from headwater.bus.leaf import LeafConnection
from headwater.delivery.round_robin import RoundRobin
from headwater.wire import leaf_frames
from headwater.wire.frames import MAX_SIZE


class Outlet:
    """Delivers to clients' subjects; without a leaf connection it delivers nothing."""

    def __init__(self, leaf: LeafConnection | None) -> None:
        self._leaf = leaf
        self._round_robin = RoundRobin()
        """Shared by all consumers that deliver here."""

    async def flush(self) -> None:
        """Return once the server has processed everything written before."""
        if self._leaf is not None:
            await self._leaf.flush()

    @property
    def is_open(self) -> bool:
        """Return whether deliveries can be made at the moment."""
        return self._leaf is not None and self._leaf.connected

    @property
    def max_payload(self) -> int:
        """Return the largest sum of headers and data that the server accepts on the leaf connection."""
        return MAX_SIZE if self._leaf is None else self._leaf.max_payload

    def listens(self, subject: bytes, queue: bytes = b"") -> bool:
        """Return whether a subject has a subscriber, or one in this queue group."""
        if self._leaf is None:
            return False
        queues = self._leaf.interest.queues(subject)
        return queue in queues if queue else bool(queues)

    @contextmanager
    def observed(self, on_interest: Callable[[], None]) -> Iterator[None]:
        """Call back for the length of a block when interest changes; never without a leaf connection."""
        if self._leaf is None:
            yield
            return
        callbacks = self._leaf.interest.change_callbacks
        callbacks.append(on_interest)
        try:
            yield
        finally:
            callbacks.remove(on_interest)

    async def subscribed(self, subject: bytes) -> None:
        """Return once there is a subscription to exactly this subject; at once if interest is unknown."""
        while self._leaf is not None and (subject, b"") not in self._leaf.interest:
            await self._leaf.interest.changed()

    def deliver(
        self,
        subject: bytes,
        replies: Sequence[bytes],
        stored_subjects: Sequence[bytes],
        headers: Sequence[bytes],
        datas: Sequence[bytes],
    ) -> int:
        """Send stored messages with their ack subjects; return how many bytes they take on the wire."""
        if self._leaf is None:
            return 0
        frames = leaf_frames.deliveries(
            subject, replies, stored_subjects, headers, datas, self._queues(subject)
        )
        self._leaf.write(frames)
        return len(frames)

    def status(self, subject: bytes, headers: bytes, reply: bytes = b"") -> None:
        """Send a message without data, such as a heartbeat, in order with the deliveries."""
        if self._leaf is not None:
            self._leaf.write(leaf_frames.lmsg(subject, reply, headers, b"", self._queues(subject)))

    async def turn(self) -> None:
        """Return when it is the caller's turn to send, and the server keeps up."""
        await self._round_robin.next()
        if self._leaf is not None:
            await self._leaf.writable()

    def _queues(self, subject: bytes) -> list[bytes]:
        assert self._leaf is not None
        return [queue for queue in self._leaf.interest.queues(subject) if queue]
