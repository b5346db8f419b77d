"""A small HTTP server for monitoring pages: GET and HEAD, one handler per path."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import ip_address
from urllib.parse import parse_qsl, urlsplit

import h11

logger = logging.getLogger(__name__)

Answer = tuple[int, str, bytes]
"""Status, content type, body."""
Query = Mapping[str, str]
Handler = Callable[[Query], Awaitable[Answer]]

IDLE_S = 30.0
"""How long a connection may stay without a request."""
MAX_READ = 65_536
MAX_CONNECTIONS = 256
_TEXT = "text/plain; charset=utf-8"


class PageServer:
    """Serves pages by their paths until it is stopped."""

    def __init__(self, pages: Mapping[str, Handler]) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None
        """None while nothing is served."""
        self._open: set[asyncio.Task[None]] = set()
        """Connections that are being answered."""
        self._is_local = True
        """Whether it listens on loopback only, so that requests must name this machine."""

    async def start(self, host: str, port: int) -> int:
        """Start serving, and return the port."""
        self._server = await asyncio.start_server(self._accept, host, port)
        addresses = [socket.getsockname()[0] for socket in self._server.sockets]
        self._is_local = all(ip_address(address).is_loopback for address in addresses)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            if len(self._open) <= MAX_CONNECTIONS:
                async with asyncio.timeout(None) as patience:
                    await self._serve_requests(reader, writer, patience)
        except (ConnectionError, TimeoutError, h11.RemoteProtocolError, asyncio.CancelledError):
            pass  # the client disconnected, was idle for too long, or did not send HTTP
        finally:
            self._open.discard(task)
            writer.close()

    async def _serve_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience: asyncio.Timeout
    ) -> None:
        """Answer the requests of one connection in order."""
        http = h11.Connection(h11.SERVER)
        loop = asyncio.get_running_loop()
        while True:
            patience.reschedule(loop.time() + IDLE_S)
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await reader.read(MAX_READ))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.EndOfMessage):
                writer.write(_sent(http, request, await self._answer(request)))
                await writer.drain()
            elif event is h11.PAUSED and http.our_state is h11.DONE:
                http.start_next_cycle()
            elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
                return
            if http.our_state is h11.MUST_CLOSE:
                return

    async def _answer(self, request: h11.Request) -> Answer:
        if self._is_local and not _names_this_machine(request):
            return 421, _TEXT, b"use an IP address or localhost for pages on loopback\n"
        if request.method not in (b"GET", b"HEAD"):
            return 405, _TEXT, b"only GET and HEAD\n"
        try:
            target = urlsplit(request.target.decode("latin-1"))
        except ValueError:
            return 400, _TEXT, b"invalid path\n"
        page = self._pages.get(target.path.rstrip("/") or "/")
        if page is None:
            return 404, _TEXT, b"no such page\n"
        try:
            return await page(dict(parse_qsl(target.query)))
        except Exception:
            logger.exception("cannot answer the page %s", target.path)
            return 500, _TEXT, b"the page failed; see the engine's log\n"


def _names_this_machine(request: h11.Request) -> bool:
    """Return whether the Host header is an IP address or localhost.

    Any other name may be a web site's that resolves to loopback to read these pages (DNS rebinding).
    """
    host = next((value for name, value in request.headers if name == b"host"), b"").decode("latin-1")
    try:
        name = urlsplit(f"//{host}").hostname or ""
        if not host or name == "localhost":
            return True
        ip_address(name)
    except ValueError:
        return False
    return True


def _sent(http: h11.Connection, request: h11.Request, answer: Answer) -> bytes:
    """Return the bytes of an answer."""
    status, content_type, body = answer
    headers = [("Content-Type", content_type), ("Content-Length", str(len(body)))]
    parts = [http.send(h11.Response(status_code=status, headers=headers))]
    if request.method != b"HEAD":
        parts.append(http.send(h11.Data(data=body)))
    parts.append(http.send(h11.EndOfMessage()))
    return b"".join(part for part in parts if part)
