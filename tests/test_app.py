"""The engine put together: it answers when it says so, stops without losing anything, and is alone."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from engines import RunningEngine, engine
from headwater.app import serve
from headwater.bus.free_port import free_port
from headwater.control.store_lock import StoreLock
from headwater.errors import BusError, DiskError, StoreLockedError
from headwater.settings import Settings
from servers import nats_server
from waits import until


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    connection = await nats.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def serving(capsys: pytest.CaptureFixture[str], **settings: Any) -> AsyncIterator[str]:
    """Run an engine in this process for the length of a block; give the line that says it is ready."""
    task = asyncio.create_task(serve(Settings(**settings)))
    said = ""

    def ready() -> bool:
        nonlocal said
        said += capsys.readouterr().out
        return task.done() or said.endswith("\n")

    await until(ready)
    if task.done():
        await task
    try:
        yield said
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_an_engine_is_ready_when_it_says_so_and_frees_everything_when_it_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    async with serving(capsys, store=tmp_path, port=port) as line:
        assert line.startswith(f"headwater is ready: on nats://127.0.0.1:{port}, 0 streams in {tmp_path} (")
        async with client(f"nats://127.0.0.1:{port}") as connection:
            js = connection.jetstream(timeout=60)
            await js.add_stream(name="S", subjects=["s.>"])
            acks = [await js.publish("s.a", b"%d" % n) for n in range(3)]
            assert [ack.seq for ack in acks] == [1, 2, 3]
            subscription = await js.pull_subscribe("s.>", "C")
            assert [m.data for m in await subscription.fetch(3)] == [b"0", b"1", b"2"]
    StoreLock(tmp_path).take()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_store_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "engine.lock").mkdir()
    with pytest.raises(DiskError, match=r"^cannot use .*engine.lock: is a directory$"):
        await serve(Settings(store=tmp_path, port=free_port()))


def others_may(path: Path) -> int:
    """Return the permissions of other users, and those of the group except reading."""
    mode = stat.S_IMODE(path.stat(follow_symlinks=False).st_mode)
    return mode & 0o027


async def test_other_users_cannot_read_a_store_including_files_of_libraries_and_memory_streams(
    tmp_path: Path,
) -> None:
    memory = tmp_path / "memory"
    memory.mkdir()
    async with engine(tmp_path / "e", "--memory-dir", str(memory)) as running:
        async with client(running.client_url) as connection:
            js = connection.jetstream(timeout=60)
            for name, storage in (("F", "file"), ("M", "memory")):
                await js.add_stream(name=name, subjects=[f"{name}.>"], storage=storage)
                await js.publish(f"{name}.a", b"secret")
        made = [*running.store.rglob("*"), running.store, *memory.rglob("*")]
        assert {"catalog.db", "log", "_delta_log", "F", "M"} <= {path.name for path in made}
        assert not [(path, oct(path.stat().st_mode)) for path in made if others_may(path)]


async def first_answer(url: str, stop: asyncio.Event, up: asyncio.Event) -> tuple[int, list[str]]:
    """Connect as soon as possible and send a request, repeatedly; return how often, and the errors.

    A server outlives a killed engine for a moment. Its answers while no engine runs do not count.
    """
    asked, wrong = 0, []
    while not stop.is_set():
        try:
            connection = await nats.connect(
                url,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0.01,
                error_cb=_quiet,
            )
        except (OSError, nats.errors.Error):
            await asyncio.sleep(0.001)
            continue
        asked += 1
        try:
            await connection.request("$JS.API.INFO", timeout=30)
            await connection.request("s.a", b"published at once", timeout=30)
        except (nats.errors.NoRespondersError, nats.errors.TimeoutError) as error:
            wrong += [repr(error)] if up.is_set() else []
        except (OSError, nats.errors.Error):
            pass  # killed meanwhile
        with suppress(OSError, nats.errors.Error):
            await connection.close()
    return asked, wrong


async def _quiet(_: Exception) -> None:
    """Say nothing of connections that are refused: they are."""


async def test_whoever_gets_in_is_answered_also_while_the_engine_starts_and_after_a_kill(
    tmp_path: Path,
) -> None:
    """Clients that connect or reconnect during a start never reach a server whose engine does not answer."""
    running = RunningEngine(tmp_path)
    await running.start()
    async with client(running.client_url) as connection:
        await connection.jetstream(timeout=60).add_stream(name="S", subjects=["s.>"])
    await running.kill()
    stop, up = asyncio.Event(), asyncio.Event()
    clients = [asyncio.create_task(first_answer(running.client_url, stop, up)) for _ in range(4)]
    for _ in range(3):
        up.set()
        await running.start()
        await asyncio.sleep(0.3)
        up.clear()
        await running.kill()
    stop.set()
    answered = await asyncio.gather(*clients)
    await running.stop()
    assert sum(asked for asked, _ in answered) >= 3
    assert [wrong for _, each in answered for wrong in each] == []


async def test_streams_and_consumers_are_there_again_in_the_next_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    async with serving(capsys, store=tmp_path, port=port):
        async with client(f"nats://127.0.0.1:{port}") as connection:
            js = connection.jetstream(timeout=60)
            await js.add_stream(name="S", subjects=["s"])
            for n in range(3):
                await js.publish("s", b"%d" % n)
            subscription = await js.pull_subscribe("s", "C")
            (message,) = await subscription.fetch(1)
            await message.ack_sync()
    async with serving(capsys, store=tmp_path, port=port) as line:
        assert "1 stream" in line
        async with client(f"nats://127.0.0.1:{port}") as connection:
            js = connection.jetstream(timeout=60)
            assert (await js.stream_info("S")).state.messages == 3
            subscription = await js.pull_subscribe_bind("C", "S")
            assert [m.data for m in await subscription.fetch(2)] == [b"1", b"2"]


async def test_attached_to_a_running_server_it_serves_its_domain_beside_that_servers_jetstream(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with nats_server(jetstream="hub", leaf=True) as server:
        async with serving(
            capsys, store=tmp_path, nats_url=server.client_url, leaf_url=server.leaf_url, domain="lake"
        ) as line:
            assert f"ready: domain lake on {server.client_url}" in line
            async with client(server.client_url) as connection:
                hub, lake = connection.jetstream(timeout=60), connection.jetstream(domain="lake", timeout=60)
                await hub.add_stream(name="HUB", subjects=["hub"])
                await lake.add_stream(name="LAKE", subjects=["lake"])
                ack = await lake.publish("lake", b"1")
                assert (ack.stream, ack.domain) == ("LAKE", "lake")
                assert (await hub.publish("hub", b"1")).stream == "HUB"
                assert [s.config.name for s in await hub.streams_info()] == ["HUB"]
                assert [s.config.name for s in await lake.streams_info()] == ["LAKE"]


async def test_a_server_that_cannot_be_reached_is_named_and_the_store_is_releasable(tmp_path: Path) -> None:
    nowhere = f"nats://127.0.0.1:{free_port()}"
    with pytest.raises(BusError, match="127"):
        await serve(Settings(store=tmp_path, nats_url=nowhere, domain="lake"))
    lock = StoreLock(tmp_path)
    lock.take()
    lock.release()


async def test_a_store_in_use_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    lock = StoreLock(tmp_path)
    lock.take()
    port = free_port()
    with pytest.raises(StoreLockedError, match="is in use by"):
        await serve(Settings(store=tmp_path, port=port))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["engine.lock"]
    lock.release()


async def test_sigterm_ends_the_process_with_everything_durable_and_answered(tmp_path: Path) -> None:
    acknowledged: list[int] = []
    async with engine(tmp_path) as running:
        async with client(running.client_url) as connection:
            js = connection.jetstream(timeout=60)
            await js.add_stream(name="S", subjects=["s"])
            publishing = [asyncio.create_task(js.publish("s", b"%d" % n, timeout=30)) for n in range(500)]
            acknowledged.append((await publishing[0]).seq)
            running_stop = asyncio.create_task(running.stop())
            done, waiting = await asyncio.wait(publishing, timeout=10)
            for task in waiting:
                task.cancel()
            acknowledged += [t.result().seq for t in done if t is not publishing[0] and not t.exception()]
            await running_stop
        assert await running.ended() == 0
        assert "Traceback" not in running.log
        await running.start()
        async with client(running.client_url) as connection:
            state = (await connection.jetstream(timeout=60).stream_info("S")).state
    assert len(set(acknowledged)) == len(acknowledged)
    assert state.messages >= max(acknowledged)


async def test_a_second_engine_on_the_same_store_ends_with_one_sentence(tmp_path: Path) -> None:
    async with engine(tmp_path) as first:
        second = RunningEngine(tmp_path)
        second._log = tmp_path / "second.log"
        second.launch()
        assert await second.ended() == 1
        (sentence,) = second.log.splitlines()
        assert sentence == (
            f"headwater: the store {first.store} is in use by the engine with process id {first.pid}; "
            "stop it first, or choose another store"
        )
        async with client(first.client_url) as connection:
            await connection.jetstream(timeout=60).account_info()


async def test_a_message_as_large_as_clients_may_publish_gets_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port, data = free_port(), b"x" * (1 << 20)
    async with (
        serving(capsys, store=tmp_path, port=port),
        client(f"nats://127.0.0.1:{port}") as nc,
    ):
        copies = await nc.subscribe("copy.>")

        async def ask(subject: str, **body: Any) -> Any:
            return json.loads((await nc.request(f"$JS.API.{subject}", json.dumps(body).encode(), 30)).data)

        republish = {"src": "s.>", "dest": "copy.>"}
        await ask("STREAM.CREATE.S", name="S", subjects=["s.>"], allow_direct=True, republish=republish)
        priority = {"priority_groups": ["g"], "priority_policy": "pinned_client"}
        config = {"durable_name": "C", "ack_policy": "explicit", **priority}
        assert "error" not in await ask("CONSUMER.CREATE.S.C", stream_name="S", config=config)
        stored = json.loads((await nc.request("s.a", data, 30)).data)
        assert stored == {"stream": "S", "seq": 1}
        refused = json.loads((await nc.request("s.a", data + b"x", 30)).data)
        assert refused["error"]["err_code"] == 10054
        assert (await copies.next_msg(30)).data == data
        pull = json.dumps({"batch": 1, "expires": 30_000_000_000, "group": "g"}).encode()
        box = await nc.subscribe("box")
        await nc.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", pull, reply="box")
        message = await box.next_msg(30)
        assert (message.data, "Nats-Pin-Id" in (message.headers or {})) == (data, True)
        got = await ask("STREAM.MSG.GET.S", seq=1)
        assert base64.b64decode(got["message"]["data"]) == data
        assert (await nc.request("$JS.API.DIRECT.GET.S", b'{"seq":1}', 30)).data == data
        assert nc.max_payload > len(data)


async def test_a_world_readable_store_of_an_older_release_is_reported(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir(mode=0o755)
    (tmp_path / "store").chmod(0o755)
    async with engine(tmp_path) as running:
        assert "all users of this machine can access" in running.log
        await running.stop()
        running.store.chmod(0o750)
        await running.start()
        assert running.log.count("can access") == 1
