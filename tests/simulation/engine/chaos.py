"""The faults: temporary disk errors, kills, power failures, restarts, clock jumps, cut connections."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

from headwater.errors import Error
from headwater.stream.stream import Stream
from simulation.engine.model import SECOND
from simulation.engine.shim import CHANGES, Fault, Op
from simulation.engine.world import BrokenPromiseError, World, within

READY_S = 300.0


class Chaos:
    """Breaks things as the seed has it, several in a row, some while the engine recovers from others."""

    def __init__(self, world: World, audit: Callable[[], Awaitable[None]]) -> None:
        self.world = world
        self.rng = random.Random(f"{world.seed} chaos")
        self._audit = audit
        kinds: list[tuple[float, Callable[[], Awaitable[None]]]] = [
            (3, self._break_some),
            (2, self._fill),
            (2, self._break_often),
            (1, self._unreadable),
            (1, self._slow),
            (3, self._die),
            (1, self._restart),
            (1, self._jump),
            (1, self._cut_cable),
            (0.5, self._kill_replicator),
        ]
        # Each run likes some of these more than others.
        self._kinds = [kind for _, kind in kinds]
        self._weights = [weight * self.rng.choice((0, 1, 1, 4)) + 0.05 for weight, _ in kinds]

    async def run(self, until_s: float) -> None:
        """Break things until then."""
        world = self.world
        while world.loop.time() < until_s:
            await asyncio.sleep(self.rng.expovariate(1 / 5))
            if not world.is_running:
                await self.revive()
            (kind,) = self.rng.choices(self._kinds, self._weights)
            world.counts[f"chaos {kind.__name__.strip('_')}"] += 1
            await kind()

    async def _break_some(self) -> None:
        world = self.world
        for _ in range(self.rng.randrange(1, 4)):
            fault = self.rng.choice((Fault.REFUSED, Fault.TORN, Fault.LATE))
            world.shim.arm(world.shim.operations + self.rng.randrange(1, 80), fault)
            world.note(f"{fault.name} is armed")

    async def _fill(self) -> None:
        self.world.note("the disk is full")
        self.world.shim.fill()
        await self._heal_later(self.rng.choice((0.5, 3, 15, 40)))

    async def _break_often(self) -> None:
        ops = self.rng.sample(CHANGES, self.rng.randrange(1, 5))
        fault = self.rng.choice((Fault.REFUSED, Fault.TORN, Fault.LATE))
        rate = self.rng.choice((0.02, 0.1, 0.5, 1.0))
        for op in ops:
            self.world.shim.rate(op, fault, rate)
        self.world.note(f"{fault.name} at a rate of {rate} for {[op.name for op in ops]}")
        await self._heal_later(self.rng.choice((0.5, 3, 15)))

    async def _unreadable(self) -> None:
        rate = self.rng.choice((0.02, 0.3))
        for op in (Op.READ, Op.OPEN):
            self.world.shim.rate(op, Fault.REFUSED, rate)
        self.world.note(f"reads fail at a rate of {rate}")
        await self._heal_later(self.rng.choice((0.5, 3)))

    async def _heal_later(self, seconds: float) -> None:
        """End the fault after a while; sometimes another fault begins before that."""
        if self.rng.random() < 0.3:
            await asyncio.sleep(self.rng.random() * seconds)
            await self.rng.choice((self._die, self._jump, self._break_some))()
        await asyncio.sleep(seconds)
        self.world.shim.heal()
        self.world.note("the disk is healthy again")

    async def _slow(self) -> None:
        self.world.note("the disk is slow")
        self.world.loop.slow = self.rng.choice((0.05, 0.5))
        await asyncio.sleep(self.rng.random() * 15)
        self.world.loop.slow = 0.0

    async def _die(self) -> None:
        """Have the engine killed at an operation, or at any time, and start it again."""
        world = self.world
        life = world.life
        if world.is_running and self.rng.random() < 0.85:
            self._arm_kill()
            for _ in range(100):
                await asyncio.sleep(0.1)
                if not world.is_running or world.life != life:
                    break
        if world.is_running and world.life == life:
            world.kill()
        await self.revive()

    def _arm_kill(self) -> None:
        """Have the process killed at an operation; often between a write and its sync."""
        shim = self.world.shim
        if self.rng.random() < 0.4:
            shim.kill_on(self.rng.choice((Op.SYNC, Op.SYNC, Op.SYNC_DIR, Op.RENAME)))
        else:
            shim.kill_at(shim.operations + self.rng.randrange(1, self.rng.choice((10, 80, 300))))

    async def _restart(self) -> None:
        await self._stop()
        await self.revive()

    async def _stop(self) -> None:
        """Stop the engine, often while folds are in progress: one for a copy ends after the consumers."""
        world = self.world
        if world.seat is not None and self.rng.random() < 0.7:
            names = world.seat.domain.names()
            for name in self.rng.sample(names, min(len(names), self.rng.randrange(1, 9))):
                stream = world.seat.domain.find(name)
                if stream is not None:
                    world.counts["stop in a fold"] += 1
                    world.spawn(_fold(stream, self.rng.random() * 0.02), world.life)
        await within(world.stop(), READY_S, "a stop of the engine")

    async def restart_in_order(self) -> None:
        """Stop the engine and start it on a healthy disk."""
        world = self.world
        world.shim.heal()
        await self._stop()
        if world.problem is not None:
            raise BrokenPromiseError(f"the engine does not stop in order: {world.problem!r}")
        world.start()
        if not await self._is_ready():
            raise BrokenPromiseError(f"the engine does not start on a healthy disk: {world.problem!r}")

    async def _jump(self) -> None:
        world = self.world
        seconds = self.rng.choice((-3600, -30, -1, 1, 30, 600))
        world.counts["clock forward" if seconds > 0 else "clock back"] += 1
        world.jump(seconds * SECOND)

    async def _cut_cable(self) -> None:
        world = self.world
        world.note("connections are cut")
        world.server.is_up = False
        for link in list(world.server.links):
            link.lose()
        await asyncio.sleep(self.rng.random() * 4)
        world.server.is_up = True

    async def _kill_replicator(self) -> None:
        self.world.note("the replicator is killed")
        self.world.end_replicator()
        await asyncio.sleep(self.rng.random() * 3)
        self.world.start_replicator()

    async def revive(self) -> None:
        """Start the engine again after whatever ended it, and hold what it has against what was promised."""
        world = self.world
        for attempt in range(40):
            if not world.is_running:
                self._next_disk()
                if attempt < 4 and self.rng.random() < 0.3:
                    await self._trouble_at_start()
                if attempt >= 10:
                    world.shim.heal()
                world.start()
            if await self._is_ready():
                world.shim.heal()
                await self._audit()
                return
            await asyncio.sleep(self.rng.random() * 2)
        raise BrokenPromiseError(f"the engine does not start: {world.problem!r}")

    def _next_disk(self) -> None:
        """Have the disk as the next life finds it."""
        world = self.world
        if world.shim.dead:
            power_cut = self.rng.random() < (0.6 if world.problem is None else 0.1)
            world.recover_disk(power_cut=power_cut)
            if power_cut:
                world.end_replicator()
                world.start_replicator()

    async def _trouble_at_start(self) -> None:
        """Have something break while the engine opens its store."""
        shim = self.world.shim
        at = shim.operations + self.rng.randrange(1, self.rng.choice((20, 120)))
        self.world.counts["fault at start"] += 1
        if self.rng.random() < 0.5:
            shim.kill_at(at)
            return
        shim.arm(at, self.rng.choice((Fault.REFUSED, Fault.TORN, Fault.LATE)))

    async def _is_ready(self) -> bool:
        """Return whether the engine became ready before it ended."""
        world = self.world
        life = world.life
        for _ in range(int(READY_S / 0.1)):
            if world.life != life or not world.is_running:
                return False
            if world.ready.is_set():
                return True
            await asyncio.sleep(0.1)
        raise BrokenPromiseError("the engine neither starts nor fails")


async def _fold(stream: Stream, after_s: float) -> None:
    """Fold a stream and write its checkpoint, soon; a disk that refuses it is no finding."""
    await asyncio.sleep(after_s)
    with suppress(Error):
        await stream.checkpoint()
