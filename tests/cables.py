"""TCP connections that a test can cut, freeze or slow down: relays on loopback."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

from headwater.bus.free_port import free_port

PIECE = 1 << 16
SEGMENT = 1460
IN_FLIGHT = 256
"""So many pieces are on their way at most; who sends more is held up, as by a full window."""


class Cable:
    """Relays every connection to one port; while cut it has none and takes none."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._server: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._relays: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._is_cut = False
        self.port = 0
        self.source = ""
        """The address of this machine from which the server is called, where it matters."""
        self.delay_s = 0.0
        self.bytes_per_s = 0
        """How much goes through in each direction; zero is as much as comes."""
        self.stalls: Callable[[], float] = lambda: 0.0
        """How much later a segment comes than it should, as when it was lost and sent again."""

    async def restore(self) -> None:
        """Accept connections on the same port again."""
        self._is_cut = False
        self.port = self.port or free_port()
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)

    async def cut(self) -> None:
        """Break every connection and refuse new ones."""
        assert self._server is not None
        self._is_cut = True
        self._server.close()
        self._flowing.set()
        for end in list(self._ends):
            end.transport.abort()
        await asyncio.gather(*self._relays, return_exceptions=True)

    def freeze(self) -> None:
        """Hold back all that is sent, without a word to either end."""
        self._flowing.clear()

    def thaw(self) -> None:
        """Forward what was held back, and everything after it."""
        self._flowing.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = (self.source, 0) if self.source else None
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to, local_addr=own)
        except OSError:
            writer.transport.abort()
            return
        if self._is_cut:
            # Cut while this connection was being made.
            writer.transport.abort()
            far_writer.transport.abort()
            return
        self._ends |= {writer, far_writer}
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            relay = asyncio.create_task(self._relay(source, sink))
            self._relays.add(relay)
            relay.add_done_callback(self._relays.discard)

    async def _relay(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(IN_FLIGHT)
        arriving = asyncio.create_task(self._arrive(under_way, sink))
        loop = asyncio.get_running_loop()
        sent = loop.time()
        try:
            while data := await source.read(PIECE):
                await self._flowing.wait()
                takes_s = len(data) / self.bytes_per_s if self.bytes_per_s else 0.0
                segments = range(0, len(data), SEGMENT)
                sent = max(sent, loop.time()) + takes_s + sum(self.stalls() for _ in segments)
                await under_way.put((sent + self.delay_s, data))
            await under_way.put((sent + self.delay_s, b""))
            await arriving
        except OSError:
            pass
        finally:
            arriving.cancel()
            self._ends.discard(sink)
            sink.transport.abort()

    async def _arrive(
        self, under_way: asyncio.Queue[tuple[float, bytes]], sink: asyncio.StreamWriter
    ) -> None:
        """Hand on each piece when it is due; an empty one is the last."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                due, data = await under_way.get()
                if due > loop.time():
                    await asyncio.sleep(due - loop.time())
                if not data:
                    return
                sink.write(data)
                await sink.drain()
        except OSError:
            sink.transport.abort()


@asynccontextmanager
async def cable(port: int) -> AsyncIterator[Cable]:
    """Yield a cable to a loopback port."""
    relay = Cable(port)
    await relay.restore()
    try:
        yield relay
    finally:
        await relay.cut()


class CableRoom:
    """Cables in a thread of their own: they relay whatever the test is waiting for."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._cables: list[Cable] = []

    def __enter__(self) -> CableRoom:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for laid in self._cables:
            self.cut(laid)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def lay(self, port: int) -> Cable:
        """Return a cable to a port."""
        laid = Cable(port)
        self._cables.append(laid)
        self.restore(laid)
        return laid

    def cut(self, laid: Cable) -> None:
        """Break every connection of a cable and refuse new ones."""
        self._do(laid.cut())

    def restore(self, laid: Cable) -> None:
        """Take connections again."""
        self._do(laid.restore())

    def freeze(self, laid: Cable) -> None:
        """Hold back all that a cable is given."""
        self._loop.call_soon_threadsafe(laid.freeze)

    def thaw(self, laid: Cable) -> None:
        """Let everything flow again."""
        self._loop.call_soon_threadsafe(laid.thaw)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)
