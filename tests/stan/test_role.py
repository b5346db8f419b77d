"""Tests of stan.role."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from doors import connected
from engines import READY_WORDS, RunningEngine
from headwater.settings import Settings
from headwater.stan.role import Role, serving_role, waiting_role
from servers import nats_server
from stan_door import CLUSTER, StanClient


def clustered(store: Path, **more: Any) -> Settings:
    """Return the settings of an engine in a cluster."""
    more |= {"journal": "s3://b/j", "tables": "s3://b/t"}
    return Settings(store=store, stan=CLUSTER, stan_clustered=True, **more)


def test_an_engine_of_a_cluster_leads_or_follows_under_one_node_id(tmp_path: Path) -> None:
    settings = clustered(tmp_path)
    leader, follower = serving_role(settings, tmp_path), waiting_role(settings)
    assert (leader.state, leader.role, follower.state, follower.role) == (
        "CLUSTERED",
        "Leader",
        "CLUSTERED",
        "Follower",
    )
    assert leader.node_id == follower.node_id != ""
    other = tmp_path / "other"
    other.mkdir()
    assert waiting_role(clustered(other)).node_id != leader.node_id
    assert waiting_role(clustered(tmp_path, stan_node_id="n1")).node_id == "n1"


def test_other_engines_have_no_role(tmp_path: Path) -> None:
    assert serving_role(Settings(stan=CLUSTER), tmp_path) == Role("STANDALONE")
    assert serving_role(Settings(stan=CLUSTER, standby=True), tmp_path) == Role("FT_ACTIVE")
    assert waiting_role(Settings(stan=CLUSTER, standby=True)) == Role("FT_STANDBY")


async def test_the_follower_of_a_cluster_takes_over_state_and_clients(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(nats_server(leaf=True))
        (tmp_path / "shared").mkdir()
        shared = f"file://{tmp_path}/shared"
        attached = ("--nats", server.client_url, "--leaf", server.leaf_url, "--http-port", "0")
        options = (*attached, "--stan", CLUSTER, "--stan-clustered", "true", "--tables", f"{shared}/tables")
        engines = []
        for name in ("n1", "n2"):
            (tmp_path / name).mkdir()
            more = ("--journal", f"{shared}/journal", "--stan-node-id", name)
            engines.append(RunningEngine(tmp_path / name, options + more))
            stack.push_async_callback(engines[-1].stop)
            engines[-1].launch()
            await engines[-1].says("headwater waits" if name == "n2" else READY_WORDS)
        first, second = engines
        assert await shown(first) == ("CLUSTERED", "Leader", "n1", 204)
        assert await shown(second) == ("CLUSTERED", "Follower", "n2", 204)
        client = StanClient(await connected(server.client_url), "me")
        stack.push_async_callback(client.connection.close)
        assert not (await client.connect()).error
        heard = await client.subscribe("orders", durableName="mine")
        await client.publish_all("orders", [b"1"])
        await heard.got(1)
        await first.kill()
        await second.says(READY_WORDS)
        assert await shown(second) == ("CLUSTERED", "Leader", "n2", 204)
        await client.publish_all("orders", [b"2"])
        await heard.got(2)
        assert heard.datas[-1] == b"2"
        assert heard.messages[-1].sequence == 2


async def shown(running: RunningEngine) -> tuple[str, str, str, int]:
    """Return state, role and node id as serverz shows them, and the status of isFTActive."""
    where = re.findall(r"monitoring on (http://\S+)", running.log)[-1]

    def read() -> tuple[str, str, str, int]:
        with urlopen(f"{where}/streaming/serverz", timeout=60) as answer:
            found = json.loads(answer.read())
        with urlopen(f"{where}/streaming/isFTActive", timeout=60) as answer:
            return found["state"], found["role"], found["node_id"], answer.status

    return await asyncio.to_thread(read)
