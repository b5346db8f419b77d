"""Processes of asyncio-nats-streaming are killed, and the engine: nothing is lost, redeliveries are marked.

`TEST_ROUNDS=30` makes it long, `TEST_SEED` repeats a run.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from engines import engine
from rounds import choose_seed, rounds
from servers import nats_server
from stan.clients.real_clients import PYTHON, python_environment
from stan_door import CLUSTER
from waits import until

CHANNEL = "orders.eu"
FLOWING = 10
WITHIN_S = 120.0


class Came(NamedTuple):
    """One delivery."""

    seq: int
    flagged: bool
    data: str


class Worker:
    """A real client as a process of its own, started again whenever it has ended."""

    def __init__(self, directory: Path, url: str, client_id: str, *role: str) -> None:
        self.client_id = client_id
        self._file = directory / f"{client_id}.txt"
        self._log = directory / f"{client_id}.log"
        program = str(PYTHON / "worker.py")
        self._command = [sys.executable, program, url, CLUSTER, client_id, CHANNEL, str(self._file), *role]
        self._process: asyncio.subprocess.Process | None = None

    async def keep(self, environment: dict[str, str]) -> None:
        """Run it until cancelled."""
        while True:
            with self._log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *self._command, env=environment, stdout=log, stderr=log
                )
            try:
                await self._process.wait()
            finally:
                self.kill()
                await self._process.wait()

    def kill(self) -> None:
        """End it as kill -9 does."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    @property
    def lines(self) -> list[str]:
        """Return all that it has kept, over all its lives."""
        return self._file.read_text().splitlines() if self._file.exists() else []

    @property
    def deliveries(self) -> list[Came]:
        """Return what a subscriber has got, in order."""
        words = [line.split() for line in self.lines]
        return [Came(int(seq), flagged == "1", data) for seq, flagged, data in words]

    @property
    def log(self) -> str:
        """Return what it has complained of."""
        return self._log.read_text(errors="replace")[-2000:] if self._log.exists() else ""


@pytest.mark.parametrize(("attached", "usual"), [(False, 1), (True, 2)], ids=["embedded", "attached"])
async def test_killed_clients_of_a_killed_engine_lose_nothing(
    tmp_path: Path, attached: bool, usual: int
) -> None:
    seed = choose_seed()
    rng = random.Random(seed)
    environment = await asyncio.to_thread(python_environment)
    async with AsyncExitStack() as stack:
        options: tuple[str, ...] = ("--stan", CLUSTER, "--fold-interval-s", "0.1", "--stan-probe-s", "0.2")
        if attached:
            server = await stack.enter_async_context(nats_server(leaf=True))
            options = (*options, "--nats", server.client_url, "--leaf", server.leaf_url)
        running = await stack.enter_async_context(engine(tmp_path, *options))
        url = server.client_url if attached else running.client_url
        publisher = Worker(tmp_path, url, "publisher", "publish")
        durable = Worker(tmp_path, url, "durable", "subscribe")
        group = [Worker(tmp_path, url, f"member{n}", "subscribe", "group") for n in range(2)]
        workers = [publisher, durable, *group]
        kept = {worker: asyncio.create_task(worker.keep(environment)) for worker in workers}
        stack.push_async_callback(_ended, list(kept.values()))
        for _ in range(rounds(usual)):
            await _flowing(workers)
            await asyncio.sleep(rng.uniform(0, 0.4))
            for worker in rng.sample(workers, rng.randint(1, len(workers))):
                worker.kill()
            if rng.random() < 0.8:
                await asyncio.sleep(rng.uniform(0, 0.2))
                await running.kill()
                await running.start()
        await _flowing(workers)
        await _ended([kept[publisher]])
        wanted = set(publisher.lines)
        await _all_came(wanted, [durable])
        await _all_came(wanted, group)
        firsts = list(dict.fromkeys(came.seq for came in durable.deliveries))
        assert firsts == sorted(firsts)
        for readers in ([durable], group):
            deliveries = [came for reader in readers for came in reader.deliveries]
            unflagged = Counter(came.seq for came in deliveries if not came.flagged)
            assert max(unflagged.values()) == 1, "what came again did not say so"
            print(f"{len(wanted)} messages, {len(deliveries)} deliveries, {unflagged.total()} unflagged")


async def _flowing(workers: list[Worker]) -> None:
    """Return once every client has got, or had acknowledged, so many more messages."""
    wanted = {worker: len(worker.lines) + FLOWING for worker in workers}

    def tell() -> str:
        return "\n".join(f"{each.client_id} has {len(each.lines)} lines: {each.log}" for each in workers)

    await until(
        lambda: all(len(worker.lines) >= count for worker, count in wanted.items()),
        "every client continues",
        tell,
        WITHIN_S,
    )


async def _all_came(wanted: set[str], readers: list[Worker]) -> None:
    """Return once readers have, between them, got all of these."""
    await until(
        lambda: wanted <= {came.data for one in readers for came in one.deliveries}, patience_s=WITHIN_S
    )


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
