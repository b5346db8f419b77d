"""One seeded run, and many of them: each in a process of its own, forked from one that has everything loaded.

python -m simulation.engine.run --seeds 1,2,3        # these
python -m simulation.engine.run --runs 1000          # so many, chosen at random
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import faulthandler
import gc
import itertools
import json
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from simulation.engine.audit import Audit
from simulation.engine.chaos import Chaos
from simulation.engine.clients import Actor
from simulation.engine.topology import Topology
from simulation.engine.world import World

LASTS_S = 80.0
"""How long things break, in virtual time."""
WALL_S = 240
"""No run takes so long on any machine: it hangs."""
FIXED = "HEADWATER_SIM_FIXED"
"""Set where addresses are the same in each run."""
Outcome = dict[str, Any]


class Run:
    """Setup, trouble, rest, audit."""

    def __init__(self, root: Path, seed: int, lasts_s: float = LASTS_S, is_calm: bool = False) -> None:
        self.world = World(root, seed)
        self.world.patch()
        asyncio.set_event_loop(self.world.loop)
        self.lasts_s = lasts_s
        self.is_calm = is_calm
        self.topology = Topology(self.world)
        self.audit = Audit(self.world, self.topology)
        self.chaos = Chaos(self.world, self._audit)

    def go(self) -> Outcome:
        """Return what came of it."""
        world = self.world
        try:
            world.loop.run_until_complete(self._guarded())
            problem, trace = "", ""
        except Exception as error:
            problem, trace = f"{type(error).__name__}: {error}", traceback.format_exc()
        return {
            "seed": world.seed,
            "problem": problem,
            "trace": trace,
            "history": world.history[-60:],
            "counts": {**world.counts, **world.shim.counts()},
            "virtual_s": round(world.loop.time(), 1),
            "fingerprint": f"{world.shim.operations}-{world.loop.turns}-{world.loop.time():.9f}",
        }

    async def _guarded(self) -> None:
        main = asyncio.ensure_future(self._all())
        await asyncio.wait({main, self.world.broken}, return_when=asyncio.FIRST_COMPLETED)
        if self.world.broken.done():
            self.world.broken.result()
        main.result()

    async def _all(self) -> None:
        world = self.world
        world.begin()
        world.start()
        world.start_replicator()
        await asyncio.wait_for(world.ready.wait(), 60)
        await self.topology.make()
        actors = self.topology.actors()
        tasks = [world.spawn(actor.run()) for actor in actors]
        for task in tasks:
            task.add_done_callback(world.check)
        if self.is_calm:
            await asyncio.sleep(self.lasts_s)
        else:
            await self.chaos.run(world.loop.time() + self.lasts_s)
        await self._rest(actors)

    async def _rest(self, actors: list[Actor]) -> None:
        """Heal everything, let everybody finish, and hold the engine to all of it, again after a restart."""
        world = self.world
        world.note("from here on nothing breaks")
        world.shim.heal()
        world.shim.kill_at(0)
        world.loop.slow = 0.0
        world.server.is_up = True
        if not world.is_running:
            await self.chaos.revive()
        for publisher in self.topology.publishers:
            publisher.is_over = True
        for taker in self.topology.takers:
            taker.is_draining = True
        self.topology.stan.is_draining = True
        for actor in actors:
            if actor not in self.topology.takers and actor is not self.topology.stan:
                actor.is_over = True
        await asyncio.sleep(30)
        if self.audit.has_offline:
            await self.chaos.restart_in_order()
        await self._store_again()
        await self.audit.at_rest()
        if world.rng.random() < 0.5:
            world.kill()
            world.recover_disk(power_cut=world.rng.random() < 0.7)
        else:
            await world.stop()
        world.start()
        await asyncio.wait_for(world.ready.wait(), 300)
        await self.audit.at_rest()

    async def _store_again(self) -> None:
        """See that every stream takes messages again."""
        for publisher in self.topology.publishers:
            for _ in range(100):
                if await publisher.publish():
                    break
                await asyncio.sleep(3)
            else:
                publisher.stream.fail("it takes no messages although the disk is healthy")

    async def _audit(self) -> None:
        """Compare after a restart; a stream that a fault kept from opening is opened in a healthy restart."""
        if self.audit.has_offline:
            self.world.counts["offline after a fault"] += 1
            await self.chaos.restart_in_order()
        await self.audit.streams()


def one(seed: int, options: argparse.Namespace, root: Path) -> Outcome:
    """Return the outcome of one run in this process, which is of no use afterwards."""
    logging.basicConfig(level=options.log, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    sys.unraisablehook = lambda _: None
    gc.disable()
    return Run(root, seed, options.lasts, options.calm).go()


def workplace() -> Path:
    """Return a new directory; where nobody else is at work, always of the same name, for paths are hashed."""
    memory = Path("/dev/shm")
    base = memory if memory.is_dir() else Path(tempfile.gettempdir())
    for number in itertools.count():
        path = base.resolve() / f"headwater-sim-{os.getuid()}-{number}"
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return path
    raise AssertionError


def without_random_addresses() -> None:
    """Start this program again with addresses that are the same each time: some sets are ordered by them."""
    if os.environ.get(FIXED):
        return
    os.environ[FIXED] = "1"
    if ctypes.CDLL(None).personality(0x0040000) >= 0:
        os.execv(sys.executable, [sys.executable, "-m", "simulation.engine.run", *sys.argv[1:]])


def forked(seed: int, options: argparse.Namespace) -> Outcome:
    """Return the outcome of one run in a process of its own."""
    began = time.perf_counter()
    reading, writing = os.pipe()
    root = workplace()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(WALL_S)
        try:
            outcome = one(seed, options, root)
        except BaseException:
            outcome = {"seed": seed, "problem": "the simulator failed", "trace": traceback.format_exc()}
        with os.fdopen(writing, "w") as pipe:
            json.dump(outcome, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    shutil.rmtree(root, ignore_errors=True)
    outcome = json.loads(text) if text else {"seed": seed, "problem": f"the process ended with {status}"}
    return {**outcome, "wall_s": round(time.perf_counter() - began, 2)}


def main() -> int:
    """Run seeds, print one line of JSON for each."""
    without_random_addresses()
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--lasts", type=float, default=LASTS_S)
    parser.add_argument("--most-s", type=float, default=0.0, help="begin no run after so many seconds")
    parser.add_argument("--calm", action="store_true", help="break nothing")
    parser.add_argument("--log", default="CRITICAL")
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",") if seed]
    chosen = random.SystemRandom()
    seeds = seeds or [chosen.randrange(1, 1 << 31) for _ in range(options.runs)]
    began = time.perf_counter()
    failures = 0
    for seed in seeds:
        if options.most_s and time.perf_counter() - began > options.most_s:
            break
        outcome = forked(seed, options)
        failures += bool(outcome["problem"])
        print(json.dumps(outcome), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
