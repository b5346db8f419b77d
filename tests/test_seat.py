"""Seats: several accounts of several servers on one store, each with its own streams."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError
from nats.js.api import ConsumerConfig, RetentionPolicy, StreamSource

import headwater
from engines import READY_WORDS, RunningEngine
from headwater.app import serve
from headwater.bus.free_port import free_port
from headwater.bus.leaf import LeafConnection
from headwater.control.consumers import Consumers
from headwater.control.reserve import Reserve
from headwater.model.times import SECOND, format_time
from headwater.monitor.engine_monitor import EngineMonitor
from headwater.seat import open_pages, prefixes
from headwater.settings import Settings
from headwater.stream.stream import Stream
from headwater.web.page_server import Answer, Query
from servers import RunningServer, nats_server
from waits import until

ACCOUNTS = """
accounts {
  A { users: [ { user: ann, password: ann-secret } ] }
  B { users: [ { user: bob, password: bob-secret } ] }
}
"""


def seat(server: RunningServer, account: str, user: str, /, **more: str) -> str:
    """Return the table of a seat."""
    keys = {
        "account": account,
        "nats_url": server.client_url,
        "leaf_url": server.leaf_url,
        "user": user,
        "password": f"{user}-secret",
        **more,
    }
    return "[[seat]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())


@asynccontextmanager
async def seated_engine(
    directory: Path, *seats: str, ready: int | None = None
) -> AsyncIterator[RunningEngine]:
    """Run an engine with these seats, and give it once as many of them are served."""
    config = directory / "headwater.toml"
    config.write_text("\n".join(seats))
    running = RunningEngine(directory, ("--config", str(config), "--nats", "nats://127.0.0.1:1"))
    try:
        running.launch()
        await until(lambda: running.log.count(READY_WORDS) >= (ready or len(seats)))
        yield running
    finally:
        await running.stop()


@asynccontextmanager
async def client(server: RunningServer, user: str) -> AsyncIterator[Client]:
    connection = await nats.connect(server.client_url, user=user, password=f"{user}-secret")
    try:
        yield connection
    finally:
        await connection.close()


async def test_accounts_have_streams_of_the_same_name_and_see_only_their_own(tmp_path: Path) -> None:
    async with nats_server(ACCOUNTS, leaf=True) as server:
        async with (
            seated_engine(tmp_path, seat(server, "A", "ann"), seat(server, "B", "bob")) as running,
            client(server, "ann") as ann,
            client(server, "bob") as bob,
        ):
            for number, js in enumerate((ann.jetstream(timeout=60), bob.jetstream(timeout=60))):
                await js.add_stream(name="S", subjects=["s"])
                for _ in range(number + 1):
                    await js.publish("s", b"of %d" % number)
            for number, js in enumerate((ann.jetstream(timeout=60), bob.jetstream(timeout=60))):
                found = await (await js.pull_subscribe("s", "C")).fetch(number + 1, timeout=60)
                assert {message.data for message in found} == {b"of %d" % number}
                assert (await js.stream_info("S")).state.messages == number + 1
            assert f"ready: account A on {server.client_url.removeprefix('nats://')}" not in running.log
            assert f"ready: account A on {server.client_url}, 0 streams in {running.store}" in running.log
            assert (running.store / "A" / "S" / "log").is_dir()
            assert (running.store / "B" / "S" / "log").is_dir()
            await ann.jetstream(timeout=60).delete_stream("S")
            assert (await bob.jetstream(timeout=60).stream_info("S")).state.messages == 2


async def test_a_seat_whose_server_is_away_does_not_stop_the_others_and_is_served_when_it_comes(
    tmp_path: Path,
) -> None:
    async with nats_server(leaf=True) as here, nats_server(leaf=True) as there:
        await there.stop()
        seats = [
            f'[[seat]]\naccount="$G"\nfolder="{name}"\nnats_url="{server.client_url}"\n'
            f'leaf_url="{server.leaf_url}"\n'
            for name, server in (("HERE", here), ("THERE", there))
        ]
        async with seated_engine(tmp_path, *seats, ready=1) as running:
            await until(lambda: "the account THERE is not served yet: " in running.log)
            connection = await nats.connect(here.client_url)
            await connection.jetstream(timeout=60).add_stream(name="S", subjects=["s"])
            assert (await connection.jetstream(timeout=60).publish("s", b"")).seq == 1
            await connection.close()
            await there.start()
            await until(lambda: running.log.count(READY_WORDS) == 2)
            connection = await nats.connect(there.client_url)
            assert (await connection.jetstream(timeout=60).account_info()).streams == 0
            await connection.close()


async def test_two_domains_of_one_account_keep_their_streams_in_the_folders_they_name(tmp_path: Path) -> None:
    async with nats_server(ACCOUNTS, leaf=True) as server:
        seats = (
            seat(server, "A", "ann", domain="north"),
            seat(server, "A", "ann", domain="south", folder="A-south"),
        )
        async with seated_engine(tmp_path, *seats) as running, client(server, "ann") as ann:
            north, south = (
                ann.jetstream(domain="north", timeout=60),
                ann.jetstream(domain="south", timeout=60),
            )
            await north.add_stream(name="N", subjects=["n"])
            await south.add_stream(name="S", subjects=["s"])
            assert [info.config.name for info in await north.streams_info()] == ["N"]
            assert [info.config.name for info in await south.streams_info()] == ["S"]
            assert (running.store / "A" / "N").is_dir()
            assert (running.store / "A-south" / "S").is_dir()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"account": "B"}, "Our user belongs to the account A, not to B."),
        ({"password": "wrong"}, "refused the connection: Authorization Violation."),
        ({"domain": "hub", "nats_url": "nats://127.0.0.1:1"}, "Cannot connect to 127.0.0.1:1"),
    ],
    ids=["wrong account", "wrong password", "wrong address"],
)
async def test_a_seat_that_cannot_be_served_is_reported_in_one_sentence_beside_one_that_can(
    tmp_path: Path, changed: dict[str, str], said: str
) -> None:
    async with nats_server(ACCOUNTS, leaf=True) as server:
        seats = (
            seat(server, "B", "bob", folder="good"),
            seat(server, "A", "ann", **{"folder": "F", **changed}),
        )
        async with seated_engine(tmp_path, *seats, ready=1) as running, client(server, "bob") as bob:
            await until(lambda: "the account F is not served yet: " in running.log)
            (line,) = [each for each in running.log.splitlines() if "the account F is not served yet" in each]
            assert said in line
            assert "wrong" not in line
            assert "Traceback" not in running.log
            assert (await bob.jetstream(timeout=60).account_info()).streams == 0


async def test_a_password_that_is_corrected_in_its_file_lets_the_seat_connect(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("wrong\n")
    async with nats_server(ACCOUNTS, leaf=True) as server:
        table = seat(server, "A", "ann", password_file=str(secret))
        table = "\n".join(line for line in table.splitlines() if not line.startswith("password ="))
        (tmp_path / "headwater.toml").write_text(table)
        running = RunningEngine(
            tmp_path, ("--config", str(tmp_path / "headwater.toml"), "--nats", server.client_url)
        )
        try:
            running.launch()
            await until(lambda: "is not served yet: " in running.log)
            secret.write_text("ann-secret\n")
            await until(lambda: READY_WORDS in running.log)
        finally:
            await running.stop()


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, ("$JS.API",)),
        ({"domain": "lake"}, ("$JS.API", "$JS.lake.API")),
        ({"nats_url": "nats://hub:4222"}, ("$JS.API",)),
        ({"nats_url": "nats://hub:4222", "domain": "lake"}, ("$JS.lake.API",)),
    ],
)
def test_the_plain_api_is_served_only_where_no_other_jetstream_can_be(
    settings: dict[str, str], wanted: tuple[str, ...]
) -> None:
    assert prefixes(Settings(**settings)) == wanted  # type: ignore[arg-type]


async def test_an_account_with_a_port_of_its_own_serves_its_pages_and_the_engines_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def own(query: Query) -> Answer:
        return 200, "text/plain", b"own"

    caplog.set_level(logging.INFO)
    monitor = EngineMonitor(Settings(), tmp_path)
    async with AsyncExitStack() as stack:
        await open_pages(Settings(http_port=0), monitor, {"/own": own}, stack)
        (where,) = re.findall(r"monitoring on (http://\S+)", caplog.text)
        for path, body in (("/own", b"own"), ("/healthz", b"ok\n")):
            with await asyncio.to_thread(urlopen, where + path, timeout=60) as answer:
                assert answer.read() == body
        assert "/own" not in monitor.pages.by_path


async def test_an_account_on_the_engines_port_leaves_it_when_it_ends(tmp_path: Path) -> None:
    async def own(query: Query) -> Answer:
        return 200, "text/plain", b"own"

    monitor = EngineMonitor(Settings(http_port=0), tmp_path)
    async with AsyncExitStack() as stack:
        await open_pages(Settings(http_port=0), monitor, {"/own": own}, stack)
        assert monitor.pages.by_path["/own"] is own
    assert "/own" not in monitor.pages.by_path


@asynccontextmanager
async def served(store: Path) -> AsyncIterator[Client]:
    """Run an engine in this process, and give a client of it."""
    port = free_port()
    serving = asyncio.create_task(serve(Settings(store=store, port=port, replicator="submitted")))
    try:
        await until(lambda: serving.done() or _is_open(port))
        connection = await nats.connect(f"nats://127.0.0.1:{port}")
        yield connection
        await connection.close()
    finally:
        serving.cancel()
        await asyncio.wait({serving})


async def _is_open(port: int) -> bool:
    try:
        connection = await nats.connect(f"nats://127.0.0.1:{port}", allow_reconnect=False)
    except Exception:
        return False
    await connection.close()
    return True


async def test_what_is_due_when_an_engine_starts_waits_for_interested_consumers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduled message of an interest stream falls due while no engine runs."""
    due_ns = time.time_ns() + 3 * SECOND
    async with served(tmp_path) as client:
        config = {"name": "S", "subjects": ["s.>"], "retention": "interest", "allow_msg_schedules": True}
        config |= {"allow_rollup_hdrs": True, "allow_msg_ttl": True}
        made = await client.request("$JS.API.STREAM.CREATE.S", json.dumps(config).encode(), timeout=60)
        assert b"error" not in made.data
        js = client.jetstream(timeout=60)
        consumer = await js.pull_subscribe("s.>", "C")
        schedule = {"Nats-Schedule": f"@at {format_time(due_ns)}", "Nats-Schedule-Target": "s.out"}
        await js.publish("s.in", b"due", headers=schedule)
    await until(lambda: time.time_ns() > due_ns)
    connect = LeafConnection.connect

    async def slowly(leaf: LeafConnection) -> None:
        await asyncio.sleep(1)
        await connect(leaf)

    monkeypatch.setattr(LeafConnection, "connect", slowly)
    async with served(tmp_path) as client:
        consumer = await client.jetstream(timeout=60).pull_subscribe("s.>", "C")
        subjects: list[str] = []
        while "s.out" not in subjects:
            subjects += [message.subject for message in await consumer.fetch(1, timeout=60)]


class Announced:
    """Sets an event when the engine is ready."""

    def __init__(self, is_ready: asyncio.Event) -> None:
        self._is_ready = is_ready

    def waiting(self, store: Path, owner: str) -> None:
        raise AssertionError(f"{store} is served by {owner}")

    def ready(self, url: str, served: str, seconds: float) -> None:
        self._is_ready.set()


@asynccontextmanager
async def beside(server: RunningServer, store: Path) -> AsyncIterator[None]:
    """Run an engine in this process that connects to a nats-server and has no replicator."""
    settings = Settings(
        store=store, nats_url=server.client_url, leaf_url=server.leaf_url, replicator="submitted"
    )
    ready = asyncio.Event()
    serving = asyncio.create_task(serve(settings, Announced(ready)))
    try:
        await until(lambda: serving.done() or ready.is_set())
        assert not serving.done(), serving
        yield
    finally:
        serving.cancel()
        await asyncio.wait({serving})


@pytest.mark.parametrize("retention", [RetentionPolicy.INTEREST, RetentionPolicy.WORK_QUEUE])
async def test_an_ack_that_arrives_while_an_engine_starts_removes_nothing_that_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retention: RetentionPolicy
) -> None:
    async with nats_server(leaf=True) as server:
        client = await nats.connect(server.client_url)
        js = client.jetstream(timeout=60)
        async with beside(server, tmp_path):
            await js.add_stream(name="S", subjects=["s"], retention=retention)
            await js.add_stream(name="COPY", sources=[StreamSource(name="S")])
            consumer = await js.pull_subscribe("s", "C")
            await js.publish("s", b"not copied yet")
            (message,) = await consumer.fetch(1, timeout=60)
        opened: list[str] = []
        acked: list[Msg] = []
        on_opened, spent = Consumers.on_opened, Reserve.spent

        def noticed(consumers: Consumers, stream: Stream) -> None:
            on_opened(consumers, stream)
            opened.append(stream.name)

        async def is_acked() -> bool:
            try:
                acked.append(await client.request(message.reply, b"+ACK", timeout=60))
            except NoRespondersError:
                return False
            return True

        @asynccontextmanager
        async def spent_while_acked(reserve: Reserve) -> AsyncIterator[None]:
            async with spent(reserve):
                yield
            if opened and not acked:
                await until(is_acked)

        monkeypatch.setattr(Consumers, "on_opened", noticed)
        monkeypatch.setattr(Reserve, "spent", spent_while_acked)
        async with beside(server, tmp_path):
            assert acked
            assert (await js.consumer_info("S", "C")).num_ack_pending == 0
            assert (await js.get_msg("S", 1)).data == b"not copied yet"
        await client.close()


async def test_the_limits_of_an_account_hold_for_its_consumers(tmp_path: Path) -> None:
    async with headwater.serve(tmp_path / "lake", max_replicas=3, max_consumers=1) as engine:
        connection = await nats.connect(engine.url)
        js = connection.jetstream()
        await js.add_stream(name="S", subjects=["s"], num_replicas=3)
        await js.add_consumer("S", ConsumerConfig(durable_name="c", num_replicas=3))
        with pytest.raises(nats.js.errors.APIError) as caught:
            await js.add_consumer("S", ConsumerConfig(durable_name="d"))
        assert caught.value.err_code == 10026
        await connection.close()
