"""The replicator's rounds: ask for a plan, run it as one job, hand in the receipts, and again.

A crash between any two of these steps costs the work of one tick and nothing else: the cursor stands in the
target, and the next plan begins where it stands.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from headwater.replication.exchange import EngineAwayError, portions
from headwater.replication.work import Committed, Plan, Receipt, Work

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
IDLE_PAUSE_S = 0.01
"""Keeps an engine that answers at once from being asked without end."""
COMMIT_ATTEMPTS = 8
TELL_S = 5.0
"""A trickle is a round several times a second, which nobody wants to read one by one."""


class Engine(Protocol):
    """Whoever plans and commits."""

    async def plan(self) -> Plan:
        """Return what there is to copy, perhaps nothing; EngineAwayError when nobody answers."""
        ...

    async def commit(self, receipts: Sequence[Receipt]) -> Committed:
        """Return what became of the receipts; EngineAwayError when nobody answers."""
        ...


class Cluster(Protocol):
    """Whoever runs transfers."""

    def run(self, works: Sequence[Work]) -> list[Receipt]:
        """Return one receipt for each piece of work, in the same order."""
        ...


class Driver:
    """Drives plans from an engine over a cluster."""

    def __init__(
        self, engine: Engine, cluster: Cluster, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._engine = engine
        self._cluster = cluster
        self._pause = pause
        self._tally = _Tally()

    async def drive(self) -> None:
        """Run ticks until cancelled; an engine that is away is waited for, however long."""
        misses = 0
        while True:
            try:
                progressed = await self.tick()
            except EngineAwayError as error:
                # Once is enough: an engine may be away for days.
                logger.log(logging.DEBUG if misses else logging.WARNING, "waiting for the engine: %s", error)
                progressed = False
            misses = 0 if progressed else misses + 1
            await self._pause(pause_s(misses) if misses else IDLE_PAUSE_S)

    async def tick(self) -> bool:
        """Do one round; return whether it went well, be it that there was nothing to do."""
        plan = await self._engine.plan()
        if not plan.works:
            self._tally.tell()
            return True
        began = time.monotonic()
        receipts = await asyncio.to_thread(self._cluster.run, plan.works)
        refusals = 0
        for portion in portions(receipts):
            committed = await self._commit(portion)
            refusals += _warn(portion, committed)
            self._tally.messages += sum(committed.taken)
        self._tally.rounds += 1
        self._tally.busy_s += time.monotonic() - began
        self._tally.tell()
        return refusals < len(receipts)

    async def _commit(self, receipts: Sequence[Receipt]) -> Committed:
        """Hand receipts in, again when there is no answer: one that was taken is refused the next time."""
        for attempt in range(1, COMMIT_ATTEMPTS):
            try:
                return await self._engine.commit(receipts)
            except EngineAwayError as error:
                logger.info("handing receipts in again: %s", error)
                await self._pause(pause_s(attempt))
        return await self._engine.commit(receipts)


def pause_s(misses: int) -> float:
    """Return how long to wait after so many misses in a row."""
    return float(min(FIRST_PAUSE_S * 2.0 ** min(misses - 1, 16), LONGEST_PAUSE_S))


def _warn(receipts: Sequence[Receipt], committed: Committed) -> int:
    """Log which receipts were refused and why; return how many."""
    for receipt, refused in zip(receipts, committed.refused, strict=False):
        if refused:
            what = {"target": receipt.target, "upstream": receipt.upstream, "reason": refused}
            logger.warning("not copied", extra=what)
    return sum(bool(refused) for refused in committed.refused)


class _Tally:
    """What was copied since it was last told; told at once, then at most every few seconds."""

    def __init__(self) -> None:
        self.messages = 0
        self.rounds = 0
        self.busy_s = 0.0
        self._told = -math.inf

    def tell(self) -> None:
        """Log the sum, if there is one and the last line is old enough."""
        now = time.monotonic()
        if not self.messages or now - self._told < TELL_S:
            return
        logger.info(
            "copied",
            extra={
                "messages": self.messages,
                "rounds": self.rounds,
                "busy_s": round(self.busy_s, 3),
                "per_s": round(self.messages / max(self.busy_s, 1e-6)),
            },
        )
        self._told = now
        self.messages = self.rounds = 0
        self.busy_s = 0.0
