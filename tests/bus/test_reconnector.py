"""The line that is kept up, against servers that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headwater.bus.connection import Connection
from headwater.bus.options import ConnectOptions
from headwater.bus.reconnector import backoff_s
from headwater.errors import BusError
from sinks import KeptSink
from waits import until

INFO = b'INFO {"max_payload":1048576,"headers":true}\r\n'
Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def server_that(behaves: Behaviour) -> AsyncIterator[ConnectOptions]:
    """Run a server with the given behaviour, and yield options with short timeouts for it."""
    serving: list[asyncio.Task[None]] = []
    writers: list[asyncio.StreamWriter] = []

    def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        serving.append(asyncio.ensure_future(behaves(reader, writer)))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield ConnectOptions(
            (f"nats://127.0.0.1:{port}",),
            connect_timeout_s=0.5,
            ping_interval_s=0.01,
            reconnect_wait_s=0.001,
            max_pending_bytes=1 << 20,
        )
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        for writer in writers:
            writer.close()


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Accept a client; one that leaves before it says anything is no failure."""
    writer.write(INFO)
    first = await reader.readline()
    if not first:
        raise ConnectionResetError("the client left")
    assert first.startswith(b"CONNECT")
    assert await reader.readline() == b"PING\r\n"
    writer.write(b"PONG\r\n")


def test_the_wait_between_rounds_grows_to_a_bound_and_is_spread() -> None:
    options = ConnectOptions(reconnect_wait_s=0.1, reconnect_wait_max_s=2.0)
    full = [backoff_s(attempt, options, 1.0) for attempt in range(50)]
    assert full[:5] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6])
    assert set(full[5:]) == {2.0}
    assert backoff_s(3, options, 0.0) == pytest.approx(0.4)


async def test_a_server_that_answers_no_pings_is_left() -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        while await reader.read(1000):
            pass

    reasons: list[str] = []
    async with server_that(mute) as options:
        connection = Connection(options, on_disconnected=reasons.append)
        await connection.connect()
        await until(lambda: len(reasons) >= 2)
        assert reasons[0] == "no answer to 2 pings"
        await connection.close()


async def test_a_server_that_stops_reading_is_dropped_loudly(caplog: pytest.LogCaptureFixture) -> None:
    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        await asyncio.Event().wait()

    reasons: list[str] = []
    async with server_that(deaf) as options:
        connection = Connection(options, on_disconnected=reasons.append)
        await connection.connect()
        for _ in range(100_000):
            connection.write(b"x" * 65536)
            await asyncio.sleep(0)
            if reasons:
                break
        assert "does not read" in reasons[0]
        assert "does not read" in caplog.text
        await connection.close()


async def test_bytes_that_are_no_frame_end_the_link_but_not_the_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    greeted = 0

    async def broken_at_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal greeted
        await greet(reader, writer)
        greeted += 1
        if greeted == 1:
            await reader.readline()  # the client has had its PONG
            writer.write(b"MSG nonsense\r\n")
        while line := await reader.readline():
            if line == b"PING\r\n":
                writer.write(b"PONG\r\n")

    reasons: list[str] = []
    async with server_that(broken_at_first) as options:
        connection = Connection(options, on_disconnected=reasons.append)
        await connection.connect()
        await until(lambda: greeted == 2 and connection.connected)
        assert "MSG nonsense" in reasons[0]
        assert "broke the protocol" in caplog.text
        await connection.flush()
        await connection.close()


async def test_a_link_cut_in_the_midst_of_a_frame_does_not_spoil_the_next() -> None:
    greeted = 0

    async def cut_at_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal greeted
        await greet(reader, writer)
        greeted += 1
        await reader.readline()
        if greeted == 1:
            writer.write(b"MSG a 1 1000000\r\nonly the beginning")
            writer.close()
            return
        writer.write(b"MSG a 1 5\r\nwhole\r\n")
        await asyncio.Event().wait()

    async with server_that(cut_at_first) as options:
        connection, sink = Connection(options), KeptSink()
        await connection.connect()
        connection.subscribe(b"a", sink)
        assert await sink.got(1) == [(b"a", b"", b"", b"whole")]
        await connection.close()


async def test_a_callback_that_fails_does_not_end_the_line() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        await reader.readline()
        writer.close()

    calls: list[str] = []

    def fail(reason: str = "") -> None:
        calls.append(reason)
        raise RuntimeError("a bug in a callback")

    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
    async with server_that(hang_up) as options:
        connection = Connection(options, on_connected=fail, on_disconnected=fail)
        await connection.connect()
        await until(lambda: len(calls) >= 6)
        await connection.close()
    assert len(failures) >= 6


@pytest.mark.parametrize(
    ("first", "problem"),
    [
        (b"", "does not answer"),
        (b"HTTP/1.1 400 Bad Request\r\n", "does not answer|Cannot connect"),
        (b"INFO {broken\r\n", "Cannot connect"),
        (b"INFO [1]\r\n", "Cannot connect"),
        (b"-ERR 'maximum connections exceeded'\r\n", "maximum connections exceeded"),
        (INFO + b"-ERR 'Authentication Timeout'\r\n", "Authentication Timeout"),
    ],
)
async def test_a_server_that_does_not_greet_is_refused_with_its_own_words(first: bytes, problem: str) -> None:
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        await reader.read()

    async with server_that(rude) as options:
        with pytest.raises(BusError, match=problem):
            await Connection(options).connect()


async def test_a_server_that_hangs_up_at_once_is_named() -> None:
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with server_that(rude) as options:
        with pytest.raises(BusError, match="Cannot connect"):
            await Connection(options).connect()


async def test_closing_in_the_midst_of_reconnecting_ends_it() -> None:
    async with server_that(greet) as options:
        connection = Connection(options)
        await connection.connect()
    await until(lambda: not connection.connected)
    await asyncio.wait_for(connection.close(), 60)
    with pytest.raises(ConnectionError):
        await connection.flush()
