"""The outgoing connection to STAN clients, with counters and subscriber interest."""

from __future__ import annotations

from collections.abc import Callable

from headwater.bus.connection import Connection
from headwater.wire.stan_frames import payload_bytes


class Outbox:
    """Writes all frames to clients, so that their order is kept."""

    def __init__(self, connection: Connection, listens: Callable[[bytes], bool] | None = None) -> None:
        self._connection = connection
        self.listens = listens
        """The check whether a subject has a subscriber; None if interest is unknown."""
        self.out_msgs = 0
        self.out_bytes = 0

    @property
    def max_payload(self) -> int:
        """Return the server's maximum payload."""
        return self._connection.max_payload

    def answer(self, reply: bytes, body: bytes) -> None:
        """Answer a request if it has a reply subject."""
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
        """Return once the connection's write buffer has room."""
        await self._connection.writable()
