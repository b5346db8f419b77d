"""The way out to STAN clients: frames on one connection, counted, and whether a client listens."""

from __future__ import annotations

from collections.abc import Callable

from headwater.bus.connection import Connection
from headwater.wire.stan_frames import payload_bytes


class Outbox:
    """Everything that clients get leaves here, so that its order holds."""

    def __init__(self, connection: Connection, listens: Callable[[bytes], bool] | None = None) -> None:
        self._connection = connection
        self.listens = listens
        """Whether anybody listens on a subject; None if that cannot be seen."""
        self.out_msgs = 0
        self.out_bytes = 0

    @property
    def max_payload(self) -> int:
        """Return the largest message that the server takes."""
        return self._connection.max_payload

    def answer(self, reply: bytes, body: bytes) -> None:
        """Answer a request, unless it named no subject for that."""
        if reply:
            self._connection.write(b"PUB %b %d\r\n%b\r\n" % (reply, len(body), body))

    def deliver(self, inbox: bytes, frames: list[bytes]) -> None:
        """Send messages to a subscription, encoded up to the inbox (`wire.stan_frames.deliveries`)."""
        if frames:
            head = b"PUB %b " % inbox
            self.out_msgs += len(frames)
            self.out_bytes += payload_bytes(frames)
            self._connection.write(head + head.join(frames))

    def write(self, frames: bytes) -> None:
        """Send frames that are encoded already."""
        self._connection.write(frames)

    async def writable(self) -> None:
        """Return once the server keeps up with what was written."""
        await self._connection.writable()
