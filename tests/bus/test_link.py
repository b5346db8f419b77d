"""One TCP connection, against a peer that the test drives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from headwater.bus.link import SocketLink
from waits import until


class Peer:
    """The other end: reads only on request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer


@asynccontextmanager
async def linked(
    max_pending_bytes: int = 1 << 20, may_send: Callable[[], bool] | None = None
) -> AsyncIterator[tuple[SocketLink, Peer, list[bytes]]]:
    """Connect a link with a peer; the list gets each read of the link."""
    peers: list[Peer] = []
    reads: list[bytes] = []
    server = await asyncio.start_server(
        lambda reader, writer: peers.append(Peer(reader, writer)), "127.0.0.1", 0, limit=4096
    )
    port = server.sockets[0].getsockname()[1]
    link = SocketLink(lambda _, data: reads.append(data), max_pending_bytes, may_send)
    await asyncio.get_running_loop().create_connection(lambda: link, "127.0.0.1", port)
    await until(lambda: peers)
    try:
        yield link, peers[0], reads
    finally:
        link.drop("test over")
        peers[0].writer.close()
        server.close()
        await server.wait_closed()


async def test_writes_of_one_loop_iteration_go_out_together_and_in_order() -> None:
    async with linked() as (link, peer, _):
        writes: list[bytes] = []
        transport = link._transport
        assert transport is not None
        link._transport = RecordingTransport(transport, writes)  # type: ignore[assignment]
        for i in range(100):
            link.write(b"%02d" % i)
        expected = b"".join(b"%02d" % i for i in range(100))
        assert await peer.reader.readexactly(200) == expected
        assert writes == [expected]
        link._transport = transport


async def test_writes_are_held_back_while_nothing_may_be_sent_and_dropped_at_the_close() -> None:
    allowed, asked = [True], [0]

    def may_send() -> bool:
        asked[0] += 1
        return allowed[0]

    async with linked(may_send=may_send) as (link, peer, _):
        link.write(b"one ")
        assert await peer.reader.readexactly(4) == b"one "
        allowed[0], before = False, asked[0]
        link.write(b"two ")
        await until(lambda: asked[0] > before + 3, "it is tried again")
        link.write(b"three ")
        allowed[0] = True
        assert await peer.reader.readexactly(10) == b"two three "
        allowed[0] = False
        link.write(b"never")
        link.close()
        assert await peer.reader.read() == b""


class RecordingTransport:
    """Writes through, and keeps what each write was."""

    def __init__(self, transport: asyncio.Transport, writes: list[bytes]) -> None:
        self._transport = transport
        self._writes = writes

    def write(self, data: bytes) -> None:
        """Write and keep."""
        self._writes.append(data)
        self._transport.write(data)

    def is_closing(self) -> bool:
        """Return what the transport says."""
        return self._transport.is_closing()


async def test_what_waits_is_sent_before_closing() -> None:
    async with linked() as (link, peer, _):
        link.write(b"last words")
        link.close()
        link.write(b"too late")
        assert await peer.reader.read() == b"last words"
        assert await link.lost == "closed"


async def test_a_peer_that_reads_late_still_gets_everything() -> None:
    async with linked(max_pending_bytes=64 << 20) as (link, peer, _):
        chunk = bytes(range(256)) * 256
        for _ in range(400):
            link.write(chunk)
            await asyncio.sleep(0)
        waiting = asyncio.create_task(link.writable())
        await asyncio.sleep(0)
        assert not waiting.done()
        received = await peer.reader.readexactly(len(chunk) * 400)
        assert received == chunk * 400
        await waiting


async def test_a_peer_that_does_not_read_is_dropped_when_the_bound_is_reached() -> None:
    async with linked(max_pending_bytes=1 << 20) as (link, _, _):
        chunk = b"x" * 65536
        written = 0
        while not link.lost.done() and written < 1 << 30:
            link.write(chunk)
            written += len(chunk)
            await asyncio.sleep(0)
        assert "does not read" in await link.lost


async def test_reading_can_be_paused() -> None:
    async with linked() as (link, peer, reads):
        link.pause_reading()
        peer.writer.write(b"held back")
        await peer.writer.drain()
        for _ in range(10):
            await asyncio.sleep(0)
        assert reads == []
        link.resume_reading()
        await until(lambda: b"".join(reads) == b"held back")


async def test_the_loss_says_why_and_fails_the_pongs_expected() -> None:
    async with linked() as (link, peer, _):
        pong = link.expect_pong()
        answered = link.expect_pong()
        link.got_pong()
        await pong
        peer.writer.close()
        with pytest.raises(ConnectionError):
            await answered
        assert "closed" in await link.lost


async def test_a_link_that_breaks_between_two_writes_raises_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with linked() as (link, _, _):
        assert link._transport is not None
        link.write(b"never sent")
        link._transport.abort()
        await link.lost
    assert caplog.records == []
