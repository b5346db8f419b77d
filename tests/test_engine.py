"""`headwater.serve`: engines in this process start, answer, stop, and leave nothing behind."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import nats
import pytest

import headwater
from headwater.control.ownership import Ownership
from headwater.control.store_lock import StoreLock
from headwater.errors import FencedError, SettingsError, StoreLockedError
from servers import nats_server
from waits import until

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP)


def threads() -> list[str]:
    """Return the threads of engines and clients that run now."""
    return [each.name for each in threading.enumerate() if each.name.startswith("headwater ")]


def port_of(url: str) -> int:
    """Return the port of an address."""
    return int(url.rpartition(":")[2])


def listens(url: str) -> bool:
    """Return whether anything listens at an address."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port_of(url))) == 0


async def publish(url: str, subject: str, *data: bytes) -> list[int]:
    """Publish with the official client; return the sequences."""
    connection = await nats.connect(url)
    js = connection.jetstream(timeout=60)
    try:
        await js.add_stream(name=subject.upper(), subjects=[subject])
        return [(await js.publish(subject, each)).seq for each in data]
    finally:
        await connection.close()


async def test_an_engine_answers_clients_and_frees_everything_when_it_stops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    handlers = [signal.getsignal(number) for number in SIGNALS]
    async with headwater.serve(tmp_path / "lake") as engine:
        url = engine.url
        assert await publish(url, "orders", b"1", b"2") == [1, 2]
        assert [signal.getsignal(number) for number in SIGNALS] == handlers
        assert engine.error is None
    assert [signal.getsignal(number) for number in SIGNALS] == handlers
    assert not listens(url)
    assert threads() == []
    assert capsys.readouterr() == ("", "")
    lock = StoreLock(engine.store)
    lock.take()
    lock.release()
    async with headwater.serve(engine.store) as again:
        async with again.connect() as client:
            assert (await client.stream("ORDERS")).messages == 2


async def test_a_blocking_read_in_the_thread_of_the_block_is_answered(tmp_path: Path) -> None:
    async with headwater.serve(tmp_path) as engine:
        await publish(engine.url, "orders", b"1", b"2", b"3")
        folder = tmp_path / "$G" / "ORDERS"
        assert headwater.read(folder, server=engine.url).column("seq").to_pylist() == [1, 2, 3]
        with engine.connect() as client:
            assert client.stream("ORDERS").last_seq == 3


async def test_several_engines_run_at_once_each_with_its_own_store(tmp_path: Path) -> None:
    async with (
        headwater.serve(tmp_path / "a", domain="a") as first,
        headwater.serve(tmp_path / "b", domain="b") as second,
    ):
        assert first.url != second.url
        await asyncio.gather(publish(first.url, "x", b"1"), publish(second.url, "y", b"1"))
        async with first.connect() as one, second.connect() as other:
            assert (await one.stream_names(), await other.stream_names()) == (["X"], ["Y"])
        with pytest.raises(StoreLockedError, match="is in use by"):
            async with headwater.serve(tmp_path / "a"):
                pass
        assert await publish(first.url, "z", b"1") == [1]
    assert threads() == []


def test_without_asyncio_a_block_or_two_calls_run_an_engine(tmp_path: Path) -> None:
    with headwater.serve(tmp_path) as engine, engine.connect() as client:
        assert client.stream_names() == []
    started = headwater.serve(str(tmp_path)).start()
    assert repr(started) == f"<LocalEngine of {tmp_path}: {started.url}>"
    assert listens(started.url)
    with pytest.raises(headwater.Error, match="started only once"):
        started.start()
    started.stop()
    started.stop()
    assert not listens(started.url)
    assert threads() == []


def test_what_cannot_be_served_is_an_error_of_headwater(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="is a file"):
        headwater.serve(tmp_path / "file").start()
    with pytest.raises(SettingsError, match=r"not a setting of Headwater.*did you mean port"):
        headwater.serve(tmp_path, prt=4222)
    with pytest.raises(SettingsError, match="option port must be a whole number, not 'many'"):
        headwater.serve(tmp_path, port="many")
    with pytest.raises(headwater.Error, match="not started"):
        assert headwater.serve(tmp_path).url
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(headwater.Error, match="Cannot use the port"):
            headwater.serve(tmp_path / "lake", port=taken.getsockname()[1]).start()
    assert threads() == []


def test_the_environment_of_the_process_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_DOMAIN", "another")
    monkeypatch.setenv("HEADWATER_CONFIG", str(tmp_path / "no.toml"))
    with headwater.serve(tmp_path / "lake") as engine, engine.connect() as client:
        assert client.stream_names() == []


async def test_an_error_of_the_block_is_raised_and_the_engine_stops(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with headwater.serve(tmp_path):
            raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        with headwater.serve(tmp_path):
            raise ZeroDivisionError
    assert threads() == []


async def test_an_engine_that_waits_for_its_store_can_be_cancelled(tmp_path: Path) -> None:
    lock = StoreLock(tmp_path)
    lock.take()

    async def wait() -> None:
        async with headwater.serve(tmp_path, standby=True):
            raise AssertionError("the store is in use")

    waiting = asyncio.create_task(wait())
    await until(threads, "the engine begins to wait")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert threads() == []
    lock.release()


async def test_a_caller_that_is_cancelled_while_the_engine_stops_waits_for_it(tmp_path: Path) -> None:
    stopping = asyncio.Event()

    async def serve() -> None:
        async with headwater.serve(tmp_path):
            asyncio.get_running_loop().call_soon(stopping.set)

    serving = asyncio.create_task(serve())
    await stopping.wait()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert threads() == []
    lock = StoreLock(tmp_path)
    lock.take()
    lock.release()


def test_two_threads_may_stop_an_engine_at_once(tmp_path: Path) -> None:
    engine = headwater.serve(tmp_path).start()
    callers = [threading.Thread(target=engine.stop) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert engine.error is None
    assert not listens(engine.url)
    assert threads() == []


async def test_an_engine_that_loses_its_store_says_so_at_the_end_of_the_block(tmp_path: Path) -> None:
    async def lose() -> None:
        async with headwater.serve(tmp_path) as engine:
            await publish(engine.url, "orders", b"1")
            await asyncio.to_thread(Ownership(tmp_path).take)
            with pytest.raises((nats.errors.Error, nats.js.errors.Error)):
                await publish(engine.url, "more", b"1")
            await until(lambda: engine.error is not None, "the engine notices")

    with pytest.raises(FencedError):
        await lose()
    assert threads() == []


async def test_an_engine_can_attach_to_a_running_server(tmp_path: Path) -> None:
    async with nats_server(jetstream="hub", leaf=True) as server:
        options = {"nats_url": server.client_url, "leaf_url": server.leaf_url, "domain": "lake"}
        async with headwater.serve(tmp_path, **options) as engine, engine.connect() as client:
            assert engine.url == server.client_url
            await client.nats.jetstream(domain="lake", timeout=60).add_stream(name="S", subjects=["s"])
            assert await client.stream_names() == ["S"]


def test_a_process_that_ends_without_stop_leaves_nothing_behind(tmp_path: Path) -> None:
    script = (
        "import headwater, sys; engine = headwater.serve(sys.argv[1]).start();"
        "client = engine.connect().__enter__(); print(engine.url, client.stream_names())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ran.returncode, "Traceback" in ran.stderr) == (0, False), ran.stderr
    url, _, names = ran.stdout.strip().partition(" ")
    assert names == "[]"
    assert not listens(url)
    assert not (tmp_path / "nats-server.conf").exists(), "its server was not stopped in an orderly way"
