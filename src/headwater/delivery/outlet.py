"""The way out to subscribers: whole buffers through the leaf, and the view of who listens there."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.bus.leaf import LeafConnection
from headwater.delivery.turns import Turns
from headwater.wire import leaf_frames
from headwater.wire.frames import MAX_SIZE


class Outlet:
    """Delivers to the subjects that clients listen on; without a leaf nobody can be reached."""

    def __init__(self, leaf: LeafConnection | None) -> None:
        self._leaf = leaf
        self._turns = Turns()

    async def flush(self) -> None:
        """Return once the server has handled all that was written before."""
        if self._leaf is not None:
            await self._leaf.flush()

    @property
    def is_open(self) -> bool:
        """Return whether deliveries can be made right now."""
        return self._leaf is not None and self._leaf.connected

    @property
    def max_payload(self) -> int:
        """Return the largest headers and data together that the server takes on the leaf connection."""
        return MAX_SIZE if self._leaf is None else self._leaf.max_payload

    def listens(self, subject: bytes, queue: bytes = b"") -> bool:
        """Return whether anybody listens on a subject, or a member of this queue group does."""
        if self._leaf is None:
            return False
        queues = self._leaf.interest.queues(subject)
        return queue in queues if queue else bool(queues)

    async def subscribed(self, subject: bytes) -> None:
        """Return once there is a subscription to exactly this subject; at once where that can not be seen."""
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
        """Send a message that has no data, such as a heartbeat, in order with the deliveries."""
        if self._leaf is not None:
            self._leaf.write(leaf_frames.lmsg(subject, reply, headers, b"", self._queues(subject)))

    async def turn(self) -> None:
        """Return when it is one's turn to send, and the server keeps up with what was sent."""
        await self._turns.next()
        if self._leaf is not None:
            await self._leaf.writable()

    def _queues(self, subject: bytes) -> list[bytes]:
        assert self._leaf is not None
        return [queue for queue in self._leaf.interest.queues(subject) if queue]
