"""One engine of a site serves, the others are standbys and take over, whatever is lost with the first.

The site is the example with three copies: its streams are the files of a guide for nats-server, which ask for
three replicas.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import nats
import nats.errors
import pytest
import yaml
from nats.aio.client import Client

from headwater.control.ownership import NAME, Owner
from headwater.site.child import Child
from headwater.site.engines import DOWN, SERVING, STANDBY, STARTING, EngineChild, EngineWatch, epoch_of
from headwater.site.status import EngineStatus, SitesStatus, SiteStatus, status_of
from topologies import PORTS, RunningSites, free_ports, running_sites
from waits import until

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "three-copies"
FILMS = "cinema-a.new.films"
LOOK_S = 0.2
"""A look at the status is dear."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSites]:
    """Run the example on free ports, with its own files."""
    directory = tmp_path_factory.mktemp("three")
    value = yaml.safe_load((EXAMPLE / "three-copies.yaml").read_text())
    value["sites"]["hub"] |= dict(zip(PORTS, free_ports(len(PORTS), 3), strict=True))
    shutil.copytree(EXAMPLE / "src", directory / "src")
    with running_sites(directory, value) as running:
        yield running


async def connected(site: RunningSites) -> Client:
    """Return a client of the business account that gives up on nothing."""
    urls = list(site.topology.site("hub").client_urls())
    return await nats.connect(urls, user="acc", password="acc", max_reconnect_attempts=-1)


async def asked(client: Client, endpoint: str, config: Any = None) -> dict[str, Any]:
    """Return an answer of the API, which clients reach without naming a domain."""
    data = b"" if config is None else json.dumps(config).encode()
    found: dict[str, Any] = json.loads((await client.request(f"$JS.API.{endpoint}", data, timeout=60)).data)
    return found


async def published(client: Client, text: str) -> None:
    """Publish until it is acknowledged, as clients must."""

    async def is_acked() -> bool:
        with suppress(nats.errors.Error, asyncio.TimeoutError):
            answer = await client.request(FILMS, text.encode(), timeout=2, headers={"Nats-Msg-Id": text})
            return "error" not in json.loads(answer.data)
        return False

    await until(is_acked, f"{text} is acknowledged")


async def engines_of(site: RunningSites) -> dict[int, EngineStatus]:
    """Return the engines as the status shows them."""
    return {engine.number: engine for engine in (await status_of(site.layout)).sites[0].engines}


async def settled(site: RunningSites) -> EngineStatus:
    """Return the engine that serves, once the other one is a standby."""
    found: dict[int, EngineStatus] = {}

    async def is_settled() -> bool:
        await asyncio.sleep(LOOK_S)
        found.update(await engines_of(site))
        return sorted(engine.state for engine in found.values()) == [SERVING, STANDBY]

    await until(is_settled, "one engine serves and the other one stands by")
    return next(engine for engine in found.values() if engine.state == SERVING)


async def test_files_that_ask_for_three_replicas_get_what_they_ask_for(site: RunningSites) -> None:
    client = await connected(site)
    for name in ("cinema-a", "tickets-1", "tickets-2"):
        info = await asked(client, f"STREAM.INFO.{name}")
        assert info["config"]["num_replicas"] == 3
        assert info["cluster"]["name"] == "headquarter"
        servers = {"hub-0", "hub-1", "hub-2"}
        assert len({peer["name"] for peer in info["cluster"]["replicas"]} & servers) == 2
    # The target of a guide's sources: their sites are not here, and its files are taken all the same.
    sales = await asked(
        client, "STREAM.CREATE.sales", json.loads((EXAMPLE / "src" / "hub.sales.json").read_text())
    )
    assert sales["config"]["num_replicas"] == 3, sales
    await asked(client, "STREAM.DELETE.sales")
    five = await asked(client, "STREAM.CREATE.FIVE", {"name": "FIVE", "subjects": ["f"], "num_replicas": 5})
    assert five["error"]["err_code"] == 10074, "the journal keeps three copies, and no more"
    await client.close()


async def test_the_status_shows_who_serves_and_who_keeps_the_journal(site: RunningSites) -> None:
    serving = await settled(site)
    status = await status_of(site.layout)
    assert status.is_up
    (hub,) = status.sites
    assert serving.epoch > 0
    assert serving.since > 0
    assert hub.journal is not None
    assert sorted(server.name for server in hub.journal.servers) == ["hub-0", "hub-1", "hub-2"]
    assert [server.role for server in hub.journal.servers] == ["leader", "follower", "follower"]
    assert "@" not in hub.journal.address


async def test_a_stream_continues_without_its_engine_and_its_directory(site: RunningSites) -> None:
    client = await connected(site)
    await asked(
        client,
        "CONSUMER.CREATE.cinema-a.readers",
        {"stream_name": "cinema-a", "config": {"durable_name": "readers", "ack_policy": "explicit"}},
    )
    for number in range(10):
        await published(client, f"before {number}")
    lost = await settled(site)
    # The directory goes first: the engine is started again at once, and may not find it.
    os.kill(lost.pid, signal.SIGSTOP)
    shutil.rmtree(site.layout.store("hub", lost.number))
    os.kill(lost.pid, signal.SIGKILL)
    for number in range(10):
        await published(client, f"after {number}")
    serving = await settled(site)
    assert serving.number != lost.number
    assert serving.epoch > lost.epoch
    assert (await engines_of(site))[lost.number].restarts == lost.restarts + 1
    info = await asked(client, "STREAM.INFO.cinema-a")
    assert info["state"]["messages"] == 20
    assert info["state"]["consumer_count"] == 1
    await client.close()


async def test_the_last_words_of_an_engine_say_what_it_does(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = "import time; print('headwater waits', flush=True); time.sleep(600)"

    async def is_ready(child: Child) -> bool:
        return "waits" in child.said

    child = Child("engine x", [sys.executable, "-c", code], log, is_ready)
    watch, engine = EngineWatch(), EngineChild("x", 1, child, tmp_path)
    watch.add(engine)
    watch.look()
    assert (engine.state, watch.serving("x")) == (DOWN, 0)
    await child.start()
    try:
        watch.look()
        assert engine.state == STANDBY
        began = engine.since
        with log.open("a") as file:
            file.write("headwater is re")
        watch.look()
        assert (engine.state, engine.since) == (STANDBY, began)
        with log.open("a") as file:
            file.write("ady: x\n")
        watch.look()
        assert (engine.state, watch.serving("x")) == (SERVING, 1)
        (recorded,) = watch.states
        assert (recorded.state, recorded.epoch) == (SERVING, 0), "it owns nothing here"
    finally:
        await child.stop()
    watch.look()
    assert engine.state == DOWN


def test_an_epoch_counts_only_for_the_process_that_owns_it(tmp_path: Path) -> None:
    assert epoch_of(tmp_path, 7) == 0
    (tmp_path / NAME).write_bytes(Owner(5, 7, b"x" * 16, "host").encode())
    assert (epoch_of(tmp_path, 7), epoch_of(tmp_path, 8)) == (5, 0)
    (tmp_path / NAME).write_bytes(b"damaged")
    assert epoch_of(tmp_path, 7) == 0


@pytest.mark.parametrize(
    ("state", "is_up"), [(SERVING, True), (STANDBY, True), (STARTING, False), (DOWN, False)]
)
def test_a_site_is_up_if_all_its_engines_are(state: str, is_up: bool) -> None:
    status = SiteStatus("hub", "hub", (), (), (EngineStatus(1, SERVING), EngineStatus(2, state)))
    assert SitesStatus(0, (status,), ()).is_up is is_up
