"""How long nobody is acknowledged when an engine is killed and its directory deleted, with each journal."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path

import nats
from nats.aio.client import Client

from engines import READY_WORDS, RunningEngine
from journal_cluster import journal_cluster
from seaweed import seaweed
from servers import nats_server

QUIET = ("--standby", "--replicator", "submitted")
ANSWER_S = 0.1
LOADED_S = 1.0
"""How long messages are published before the engine is killed."""
ALONE, WITH_LEADER, OBJECTS = "JetStream", "JetStream, whose leader dies too", "objects (SeaweedFS)"


def measure(directory: Path, rounds: int) -> dict[str, list[float]]:
    """Return the seconds without an acknowledgement, for each round and each case."""
    took: dict[str, list[float]] = {ALONE: [], WITH_LEADER: [], OBJECTS: []}
    with ExitStack() as stack:
        objects = stack.enter_context(seaweed())
        endpoint = ("--tables-endpoint", objects.endpoint)
        for number in range(rounds):
            for name, found in took.items():
                home = directory / f"{number}-{len(name)}"
                home.mkdir(parents=True)
                tables = f"file://{home}/tables"
                if name == OBJECTS:
                    journal = f"{objects.new_bucket().url}/journal"
                    there = ("--tables", tables, *endpoint, "--journal", journal)
                    found.append(asyncio.run(_one(home, there)))
                    continue
                with journal_cluster() as cluster:
                    place = cluster.place("BENCH")

                    async def lose_leader() -> None:
                        cluster.kill(await cluster.leader(place), with_disk=True)  # noqa: B023

                    options = ("--tables", tables, "--journal", f"{cluster.url}/BENCH")
                    more = lose_leader if name == WITH_LEADER else None
                    found.append(asyncio.run(_one(home, options, more)))
    return took


async def _one(home: Path, options: tuple[str, ...], more: object = None) -> float:
    """Kill the engine that serves; return how long it takes until a publish is acknowledged."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(nats_server(leaf=True))
        attached = ("--nats", server.client_url, "--leaf", server.leaf_url)
        engines = []
        for name, words in (("first", READY_WORDS), ("second", "headwater waits")):
            (home / name).mkdir()
            engines.append(RunningEngine(home / name, (*QUIET, *options, *attached)))
            stack.push_async_callback(engines[-1].stop)
            engines[-1].launch()
            await engines[-1].says(words)
        client = await nats.connect(server.client_url)
        stack.push_async_callback(client.close)
        await client.jetstream().add_stream(name="BENCH", subjects=["bench"])
        until = time.monotonic() + LOADED_S
        while time.monotonic() < until:
            await _is_acknowledged(client)
        if callable(more):
            await more()
        began = time.monotonic()
        await engines[0].kill()
        shutil.rmtree(engines[0].store)
        while not await _is_acknowledged(client):
            await asyncio.sleep(0.01)
        return time.monotonic() - began


async def _is_acknowledged(client: Client) -> bool:
    with suppress(nats.errors.Error):
        answer = await client.request("bench", b"x", timeout=ANSWER_S)
        return "error" not in json.loads(answer.data)
    return False
