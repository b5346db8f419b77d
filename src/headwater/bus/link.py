"""One TCP or TLS connection to a server: coalesced writes, bounded buffers."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable

HELD_S = 0.02
"""How often it is tried to send what is held back."""


class SocketLink(asyncio.Protocol):
    """A connection from its first byte to its loss.

    Writes of one loop iteration are sent as one. While the server reads slower than we write they are
    buffered, and if the buffer exceeds its limit the link is dropped with an error, so that memory stays
    bounded.
    """

    def __init__(
        self,
        receive: Callable[[SocketLink, bytes], None],
        max_pending_bytes: int,
        may_send: Callable[[], bool] | None = None,
    ) -> None:
        """Writes are held back while `may_send` returns False."""
        self._may_send = may_send
        self._loop = asyncio.get_running_loop()
        self._receive = receive
        """Called with every read."""
        self._max_pending = max_pending_bytes
        self._transport: asyncio.Transport | None = None
        """None until the socket is connected."""
        self._out: list[bytes] = []
        """What was written in this iteration of the loop."""
        self._pending = 0
        """Bytes in `_out`."""
        self._scheduled = False
        """Whether a flush is scheduled for the end of this iteration."""
        self._writable = asyncio.Event()
        """Cleared while the transport has more to write than it should."""
        self._writable.set()
        self.pongs: deque[asyncio.Future[None]] = deque()
        """One future for each PING without an answer, oldest first."""
        self.lost: asyncio.Future[str] = self._loop.create_future()
        """Resolved with the reason when the link is lost."""
        self._reason = ""
        """Why the link is lost; empty while it is not."""

    async def start_tls(self, context: ssl.SSLContext, hostname: str) -> None:
        """Encrypt everything from here on."""
        assert self._transport is not None
        upgraded = await self._loop.start_tls(self._transport, self, context, server_hostname=hostname)
        if upgraded is None:
            raise ConnectionError(self._reason or "closed in the TLS handshake")
        self._transport = upgraded

    def write(self, raw: bytes) -> None:
        """Send `raw` with everything else of this loop iteration; after the loss it is dropped."""
        if self._reason:
            return
        self._out.append(raw)
        self._pending += len(raw)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)
        elif self._pending > self._max_pending:
            self.drop(f"the server does not read: {self._pending} bytes wait to be written")

    def expect_pong(self) -> asyncio.Future[None]:
        """Return a future that is done once the PING just written is answered; it fails with the link."""
        pong: asyncio.Future[None] = self._loop.create_future()
        self.pongs.append(pong)
        return pong

    def got_pong(self) -> None:
        """Resolve the oldest unanswered PING."""
        if self.pongs:
            pong = self.pongs.popleft()
            if not pong.done():
                pong.set_result(None)

    async def writable(self) -> None:
        """Return once the server keeps up with what was written, or the link is lost."""
        await self._writable.wait()

    def pause_reading(self) -> None:
        """Stop reading until `resume_reading`; the server buffers meanwhile."""
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if self._transport is not None and not self._reason and not self._transport.is_reading():
            self._transport.resume_reading()

    def close(self) -> None:
        """Send what is buffered, then close."""
        if self._transport is not None and not self._reason:
            self._send()
            self._reason = "closed"
            self._transport.close()

    def drop(self, reason: str) -> None:
        """Close at once, with a reason."""
        self._reason = self._reason or reason
        self._out.clear()
        self._pending = 0
        if self._transport is not None:
            self._transport.abort()

    def _flush(self) -> None:
        # Buffered writes stay scheduled: `resume_writing` sends them.
        self._scheduled = not self._writable.is_set()
        if self._scheduled:
            return
        if self._may_send is None or self._may_send():
            self._send()
        else:
            self._scheduled = True
            self._loop.call_later(HELD_S, self._flush)

    def _send(self) -> None:
        if self._may_send is not None and not self._may_send():
            return
        if self._transport is not None and self._out:
            out = self._out[0] if len(self._out) == 1 else b"".join(self._out)
            self._out.clear()
            self._pending = 0
            # A link can break between two writes, before it is reported here.
            if not self._transport.is_closing():
                self._transport.write(out)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start."""
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Pass on what the server sent."""
        self._receive(self, data)

    def pause_writing(self) -> None:
        """Buffer writes: the kernel and the transport have enough."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Write what was buffered."""
        self._writable.set()
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        """End: every waiter on this link gets the reason."""
        self._reason = self._reason or (str(error) if error else "the server closed the connection")
        self._writable.set()
        if not self.lost.done():
            self.lost.set_result(self._reason)
        for pong in self.pongs:
            if not pong.done():
                pong.set_exception(ConnectionError(self._reason))
                pong.exception()  # no task waits for the answer to a keep-alive
        self.pongs.clear()
