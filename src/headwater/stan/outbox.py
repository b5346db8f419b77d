"""The way out to STAN clients: frames on one connection, counted, and whether a client listens."""

from __future__ import annotations

from collections.abc import Callable

from headwater.bus.connection import Connection


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

    def deliver(self, inbox: bytes, bodies: list[bytes]) -> None:
        """Send messages to a subscription."""
        frames = b"".join([b"PUB %b %d\r\n%b\r\n" % (inbox, len(body), body) for body in bodies])
        self.out_msgs += len(bodies)
        self.out_bytes += sum(map(len, bodies))
        self._connection.write(frames)

    def write(self, frames: bytes) -> None:
        """Send frames that are encoded already."""
        self._connection.write(frames)

    async def writable(self) -> None:
        """Return once the server keeps up with what was written."""
        await self._connection.writable()
