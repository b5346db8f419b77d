"""Spark copies a stream once when its driver and the engine are killed at any moment."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client

from durability.spark_query import IDENTIFIED, ORIGIN, PLAIN
from durability.test_sink_kill import stored
from engines import RunningEngine, engine
from java import require_java
from rounds import choose_seed, rounds

ROUNDS = rounds(2)
"""Of a run that is asked for. Spark gives a worker ten seconds to start: a busy machine needs attempts."""
PER_ROUND = 120
COPIES = (PLAIN, IDENTIFIED)
SCRIPT = Path(__file__).with_name("spark_query.py")
ENDS_WITHIN_S = 900
"""So long that it matters only when something is broken."""


class Driver:
    """The process of Spark's driver, and what it has written."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        folder.mkdir()
        self.start()

    def start(self) -> None:
        command = [sys.executable, str(SCRIPT), self._url, str(self._folder)]
        with (self._folder / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        """Kill Python and the JVM at once."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    @property
    def log(self) -> str:
        return (self._folder / "driver.log").read_text(errors="replace")[-5000:]

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def attempts(self) -> dict[int, list[list[list[object]]]]:
        """Return what each attempt of each batch has read."""
        found: dict[int, list[list[list[object]]]] = {}
        for file in (self._folder / "batches").glob("*.json"):
            found.setdefault(int(file.name.partition("-")[0]), []).append(json.loads(file.read_text()))
        return found


async def made(client: Client) -> None:
    for name in (ORIGIN, *COPIES):
        config = {"name": name, "subjects": [f"{name}.>"], "duplicate_window": 120 * 10**9}
        await client.request(f"$JS.API.STREAM.CREATE.{name}", json.dumps(config).encode(), timeout=60)


async def published(client: Client, start: int) -> None:
    """Publish the messages of a round; each is stored once although the engine may have been killed."""
    jetstream = client.jetstream()
    sent = [
        jetstream.publish(
            f"{ORIGIN}.{number % 5}", b"%d" % number, headers={"Nats-Msg-Id": f"origin-{number}"}, timeout=60
        )
        for number in range(start, start + PER_ROUND)
    ]
    await asyncio.gather(*sent)


async def counts(client: Client) -> list[int]:
    return [(await client.jetstream().stream_info(name)).state.messages for name in COPIES]


async def waited(driver: Driver, is_due: Callable[[list[int]], bool], client: Client) -> None:
    """Return once the copies have as many messages as a test wants."""
    async with asyncio.timeout(ENDS_WITHIN_S):
        while not is_due(await counts(client)):
            assert driver.is_running, driver.log
            await asyncio.sleep(0.1)


async def strike(rng: random.Random, running: RunningEngine, driver: Driver) -> None:
    """Kill the driver, the engine, or both."""
    victim = rng.choice(["engine", "driver", "both"])
    if victim != "engine":
        driver.kill()
    if victim != "driver":
        await running.kill()
        await running.start()
    if victim != "engine":
        driver.start()


async def test_a_killed_spark_and_a_killed_engine_copy_each_message_once(tmp_path: Path) -> None:
    require_java()
    if not os.environ.get("TEST_ROUNDS"):
        pytest.skip("each round starts a Spark: `make test-rounds` runs it")
    rng = random.Random(f"{choose_seed()} spark")
    async with engine(tmp_path) as running:
        client = await nats.connect(running.client_url, max_reconnect_attempts=-1)
        await made(client)
        driver = Driver(running.client_url, tmp_path / "spark")
        try:
            for number in range(ROUNDS):
                before = number * PER_ROUND
                await published(client, before)
                wanted = before + rng.randrange(1, PER_ROUND)
                await waited(driver, lambda found, wanted=wanted: max(found) >= wanted, client)  # type: ignore[misc]
                # A random moment of the next batches, not a wait for something.
                await asyncio.sleep(rng.uniform(0, 0.5))
                await strike(rng, running, driver)
                client = await reconnected(client, running)
            total = ROUNDS * PER_ROUND
            await waited(driver, lambda found: min(found) >= total, client)
            await waited(driver, lambda _: covered(driver.attempts()) >= total, client)
        finally:
            driver.kill()
        expected = [str(number) for number in range(total)]
        for name in COPIES:
            assert sorted(await stored(client, name), key=int) == expected
        for batch, attempts in driver.attempts().items():
            assert all(attempt == attempts[0] for attempt in attempts), f"batch {batch} was read differently"
        read = [row for _, attempts in sorted(driver.attempts().items()) for row in attempts[0]]
        assert [seq for seq, _ in read] == list(range(1, total + 1))
        await client.close()


async def reconnected(client: Client, running: RunningEngine) -> Client:
    await client.close()
    return await nats.connect(running.client_url, max_reconnect_attempts=-1)


def covered(attempts: dict[int, list[list[list[object]]]]) -> int:
    return sum(len(each[0]) for each in attempts.values())
