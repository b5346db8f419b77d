"""Tests of stan.standby."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from urllib.request import urlopen

from engines import READY_WORDS, RunningEngine, engine
from headwater.clock import SystemClock
from headwater.stan.standby import StandbyPages
from servers import nats_server
from stan_door import CLUSTER


async def test_one_that_waits_says_so() -> None:
    pages = StandbyPages(CLUSTER, SystemClock()).pages
    status, _, body = await pages["/streaming/serverz"]({})
    page = json.loads(body)
    assert (status, page["state"], page["cluster_id"], page["channels"]) == (200, "FT_STANDBY", CLUSTER, 0)
    assert (await pages["/streaming/isFTActive"]({}))[0] == 204
    assert b"/streaming/serverz" in (await pages["/streaming"]({}))[2]


async def test_the_pages_tell_which_engine_serves_before_and_after_a_takeover(tmp_path: Path) -> None:
    async with nats_server(leaf=True) as server:
        options = ("--nats", server.client_url, "--leaf", server.leaf_url, "--standby", "--stan", CLUSTER)
        async with engine(tmp_path / "first", *options, "--http-port", "0") as first:
            second = RunningEngine(tmp_path / "second", (*options, "--http-port", "0"), first.store)
            second.directory.mkdir()
            second.launch()
            try:
                await second.says("headwater waits")
                assert await shown(first, "monitoring on") == (200, "FT_ACTIVE")
                assert await shown(second, "standby: monitoring on") == (204, "FT_STANDBY")
                await first.kill()
                await second.says(READY_WORDS)
                assert await shown(second, "monitoring on") == (200, "FT_ACTIVE")
            finally:
                await second.stop()


async def test_one_that_has_no_port_while_it_waits_has_it_afterwards(tmp_path: Path) -> None:
    async with nats_server(leaf=True) as server:
        options = ("--nats", server.client_url, "--leaf", server.leaf_url, "--standby", "--stan", CLUSTER)
        async with engine(tmp_path / "first", *options, "--http-port", "0") as first:
            port = re.findall(r"monitoring on http://.*:(\d+)", first.log)[-1]
            second = RunningEngine(tmp_path / "second", (*options, "--http-port", port), first.store)
            second.directory.mkdir()
            second.launch()
            try:
                await second.says("headwater waits")
                assert f"cannot serve monitoring on port {port} as a standby" in second.log
                await first.kill()
                await second.says(READY_WORDS)
                assert await shown(second, "monitoring on") == (200, "FT_ACTIVE")
            finally:
                await second.stop()


async def shown(running: RunningEngine, words: str) -> tuple[int, str]:
    """Return the status of isFTActive, and the state in serverz."""
    where = re.findall(rf"{words} (http://\S+)", running.log)[-1]

    def read() -> tuple[int, str]:
        with urlopen(f"{where}/streaming/isFTActive", timeout=60) as answer:
            status = answer.status
        with urlopen(f"{where}/streaming/serverz", timeout=60) as answer:
            return status, json.loads(answer.read())["state"]

    return await asyncio.to_thread(read)
