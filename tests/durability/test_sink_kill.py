"""Batches are stored once when the engine and the query that writes them are killed at any moment."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from functools import partial
from pathlib import Path

import nats
from nats.aio.client import Client

from durability.sink_query import PARTS, STREAMS, rows_of
from engines import RunningEngine, engine
from rounds import choose_seed, rounds
from waits import until

ROUNDS = rounds(2)
BATCHES = 3 * ROUNDS + 2
ENDS_WITHIN_S = 900
"""So long that it matters only when something is broken."""
ATTEMPTS = 5
"""How often the query may fail at the end, when nothing is killed any more."""
SCRIPT = Path(__file__).with_name("sink_query.py")


async def made(url: str) -> None:
    client = await nats.connect(url)
    for stream in STREAMS:
        more = {"max_msgs_per_subject": 1_000_000} if stream == "RULED" else {}
        config = {
            "name": stream,
            "subjects": [f"{stream}.>"],
            "storage": "file",
            "retention": "limits",
            **more,
        }
        await client.request(f"$JS.API.STREAM.CREATE.{stream}", json.dumps(config).encode(), timeout=60)
    await client.close()


async def stored(client: Client, stream: str) -> list[str]:
    """Return the data of all messages in order."""
    subscription = await client.jetstream().subscribe(f"{stream}.>", stream=stream, ordered_consumer=True)
    info = await client.jetstream().stream_info(stream)
    found = [(await subscription.next_msg(timeout=60)).data.decode() for _ in range(info.state.messages)]
    await subscription.unsubscribe()
    return found


def launched(running: RunningEngine, checkpoint: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(SCRIPT), running.client_url, str(checkpoint), str(BATCHES)]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def reached(checkpoint: Path) -> int:
    return int(checkpoint.read_text()) if checkpoint.exists() else -1


def is_due(query: subprocess.Popen[bytes], checkpoint: Path, wanted: int) -> bool:
    """Return whether the query has stored a batch, or has ended."""
    return reached(checkpoint) >= wanted or query.poll() is not None


async def test_killed_queries_and_engines_store_each_row_once(tmp_path: Path) -> None:
    rng = random.Random(f"{choose_seed()} sink")
    checkpoint = tmp_path / "checkpoint"
    async with engine(tmp_path) as running:
        await made(running.client_url)
        query = launched(running, checkpoint)
        try:
            for _ in range(ROUNDS):
                wanted = min(reached(checkpoint) + rng.randrange(1, 3), BATCHES - 1)
                victim = rng.choice(["engine", "query", "both"])
                await until(partial(is_due, query, checkpoint, wanted), f"batch {wanted}")
                # A random moment of the next batch, not a wait for something.
                await asyncio.sleep(rng.uniform(0, 0.1))
                if victim != "engine":
                    query.kill()
                if victim != "query":
                    await running.kill()
                    await running.start()
                if victim != "engine":
                    await asyncio.to_thread(query.wait, ENDS_WITHIN_S)
                # A query that noticed nothing of the engine's restart goes on.
                if query.poll() is not None:
                    query = launched(running, checkpoint)
            for _ in range(ATTEMPTS):
                if await asyncio.to_thread(query.wait, ENDS_WITHIN_S) == 0:
                    break
                query = launched(running, checkpoint)
        finally:
            query.kill()
            query.wait()
        assert reached(checkpoint) == BATCHES - 1
        client = await nats.connect(running.client_url)
        for stream in STREAMS:
            expected = [row for b in range(BATCHES) for p in range(PARTS) for row in rows_of(stream, b, p)]
            assert await stored(client, stream) == expected
        await client.close()
