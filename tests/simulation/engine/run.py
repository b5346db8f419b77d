"""One seeded run, in a process of its own: forked from one that has everything loaded and never changes.

The process reads seeds from its input, one in each line, and writes one line of JSON for each (simulate.py).
It must run on the shim. It does nothing between two runs, so that each begins in the same memory: a seed must
repeat a run at any position in a list of seeds. No set of our own objects is in the order of addresses.
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
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from headwater.delivery.consumers import StreamConsumers
from headwater.errors import Error
from simulation.engine.audit import Audit
from simulation.engine.chaos import Chaos
from simulation.engine.clients import Actor
from simulation.engine.mutations import MUTATIONS
from simulation.engine.topology import Topology
from simulation.engine.world import World, within

LASTS_S = 45.0
"""How long things break, in virtual time."""
WALL_S = 400
"""No run takes so long on any machine: it hangs."""
LINE = 12
"""How long a line with a seed is."""
FIXED = "HEADWATER_SIM_FIXED"
"""Set where addresses are the same in each run."""
Outcome = dict[str, Any]


class Run:
    """One run: setup, faults, recovery, audit."""

    def __init__(
        self,
        root: Path,
        seed: int,
        lasts_s: float = LASTS_S,
        is_calm: bool = False,
        folds_late: bool = False,
    ) -> None:
        self.world = World(root, seed)
        self.world.patch()
        asyncio.set_event_loop(self.world.loop)
        self.lasts_s = lasts_s
        self.is_calm = is_calm
        self.folds_late = folds_late
        """Whether every stop of the engine ends with a fold of each stream, after its consumers."""
        self.topology = Topology(self.world)
        self.audit = Audit(self.world, self.topology)
        self.chaos = Chaos(self.world, self._audit)

    def go(self) -> Outcome:
        """Run it and return the result."""
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
            "waiting": self._waiting() if problem else [],
            "counts": {**world.counts, **world.shim.counts()},
            "virtual_s": round(world.loop.time(), 1),
            "fingerprint": f"{world.shim.operations}-{world.loop.time():.9f}",
        }

    def _waiting(self) -> list[str]:
        """Return the stacks of the engine's tasks."""
        found = []
        for task, life in self.world.loop.life_of.items():
            if life in self.world.loop.dead_lives:
                continue
            if (stack := task.get_stack(limit=8)) and "headwater" in stack[-1].f_code.co_filename:
                frames = [f"{Path(f.f_code.co_filename).name}:{f.f_lineno} {f.f_code.co_name}" for f in stack]
                found.append(f"{task.get_name()}: {' > '.join(frames)}")
        return sorted(found)

    async def _guarded(self) -> None:
        main = asyncio.ensure_future(self._all())
        await asyncio.wait({main, self.world.broken}, return_when=asyncio.FIRST_COMPLETED)
        if self.world.broken.done():
            self.world.broken.result()
        main.result()

    async def _all(self) -> None:
        world = self.world
        if self.folds_late:
            fold_after_consumers()
        world.begin()
        world.start()
        world.start_replicator()
        await within(world.ready.wait(), 60, "the first start of the engine")
        await self.topology.make()
        actors = self.topology.actors()
        tasks = [world.spawn(actor.run()) for actor in actors]
        for task in tasks:
            task.add_done_callback(world.check)
        if self.is_calm:
            await self._calm()
        else:
            await self.chaos.run(world.loop.time() + self.lasts_s)
        await self._rest(actors)

    async def _calm(self) -> None:
        """Break nothing. Late folds need a stop and a start while clients are busy."""
        if self.folds_late:
            await asyncio.sleep(self.lasts_s / 2)
            await self.chaos.restart_in_order()
            await self.audit.streams()
        await asyncio.sleep(self.lasts_s / (2 if self.folds_late else 1))

    async def _rest(self, actors: list[Actor]) -> None:
        """End all faults, let all clients finish, and audit the engine, before and after a restart."""
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
        finishing = {*self.topology.takers, *self.topology.ordered, self.topology.stan}
        for actor in actors:
            if actor not in finishing:
                actor.is_over = True
        await asyncio.sleep(30)
        if self.audit.has_offline:
            await self.chaos.restart_in_order()
        await self._store_again()
        await self.audit.at_rest()
        if world.rng.random() < 0.5:
            world.kill()
            world.recover_disk(power_cut=world.rng.random() < 0.7)
            world.start()
            await within(world.ready.wait(), 300, "the last start of the engine")
        else:
            await self.chaos.restart_in_order()
        await self.audit.at_rest()

    async def _store_again(self) -> None:
        """See that every stream takes messages again."""
        for publisher in self.topology.publishers:
            for _ in range(100):
                if await publisher.publish():
                    break
                await asyncio.sleep(3)
            else:
                publisher.stream.fail(f"it takes no messages on a healthy disk: {publisher.last_refusal}")

    async def _audit(self) -> None:
        """Compare after a restart; a stream that a fault kept from opening is opened in a healthy restart."""
        if self.audit.has_offline:
            self.world.counts["offline after a fault"] += 1
            await self.chaos.restart_in_order()
        await self.audit.streams()


def fold_after_consumers() -> None:
    """Fold each stream after its consumers are closed, as a fold that a copy asked for may do."""
    close: Callable[[StreamConsumers], Awaitable[None]] = StreamConsumers.close

    async def close_and_fold(self: StreamConsumers) -> None:
        await close(self)
        with suppress(Error):
            await self.stream.checkpoint()

    setattr(StreamConsumers, "close", close_and_fold)  # noqa: B010  # one process, one run


def one(seed: int, options: argparse.Namespace, root: Path) -> Outcome:
    """Return the outcome of one run in this process, which is of no use afterwards."""
    began = time.perf_counter()
    logging.basicConfig(level=options.log, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    sys.unraisablehook = lambda _: None
    if options.mutation:
        MUTATIONS[options.mutation].apply()
    outcome = Run(root, seed, options.lasts, options.calm, options.late_folds).go()
    return {**outcome, "wall_s": round(time.perf_counter() - began, 2)}


def workplace() -> Path:
    """Return a new directory, for all runs of this process: paths are hashed, and order some sets."""
    memory = Path("/dev/shm")
    base = memory if memory.is_dir() else Path(tempfile.gettempdir())
    for number in itertools.count():
        path = base.resolve() / f"headwater-sim-{os.getuid()}-{number:04}"
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return path
    raise AssertionError


def run(seed: int, options: argparse.Namespace, root: Path) -> None:
    """Write the outcome of one run, in a child of the process that waits for seeds."""
    signal.alarm(WALL_S)
    faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)
    try:
        outcome = one(seed, options, root / "run")
    except BaseException:
        outcome = {"seed": seed, "problem": "the simulator failed", "trace": traceback.format_exc()}
    finally:
        shutil.rmtree(root / "run", ignore_errors=True)
    print(json.dumps(outcome), flush=True)


def without_random_addresses() -> None:
    """Start this program again with addresses that are the same each time."""
    if os.environ.get(FIXED):
        return
    os.environ[FIXED] = "1"
    if ctypes.CDLL(None).personality(0x0040000) >= 0:
        os.execv(sys.executable, [sys.executable, "-m", "simulation.engine.run", *sys.argv[1:]])


def main() -> None:
    """Fork a run for each seed."""
    without_random_addresses()
    parser = argparse.ArgumentParser()
    parser.add_argument("--lasts", type=float, default=LASTS_S)
    parser.add_argument("--calm", action="store_true", help="break nothing")
    parser.add_argument("--late-folds", action="store_true", help="fold streams after their consumers closed")
    parser.add_argument("--mutation", default="", choices=["", *MUTATIONS], help="break the engine itself")
    parser.add_argument("--log", default="CRITICAL")
    options = parser.parse_args()
    root = workplace()
    gc.disable()
    gc.freeze()
    while line := os.read(0, LINE):
        child = os.fork()
        if child == 0:
            run(int(line), options, root)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            shutil.rmtree(root / "run", ignore_errors=True)
            os.write(
                1, b'{"seed": %d, "problem": "the process ended with status %d"}\n' % (int(line), status)
            )


if __name__ == "__main__":
    main()
