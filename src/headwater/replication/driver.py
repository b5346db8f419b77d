"""The replicator's rounds: ask for a plan, run it as one job, commit the receipts, and repeat.

A crash between any two of these steps costs the work of one round and nothing else. The cursor is stored in
the target, and the next plan begins there.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from headwater.background_tasks import BackgroundTasks
from headwater.backoff import wait_s
from headwater.replication.exchange import EngineUnreachableError, portions
from headwater.replication.work import Committed, Plan, Receipt, SqlCheck, SqlChecked, Work

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
IDLE_PAUSE_S = 0.01
"""A pause between rounds, so that an engine that answers at once is not asked continuously."""
COMMIT_ATTEMPTS = 30
LONG_ROUNDS = 3
"""How many rounds that read files or remote origins may run at once."""
REPORT_S = 5.0
"""How often copied messages are logged at the most; a trickle has several rounds per second."""


class Engine(Protocol):
    """Plans ranges and commits receipts."""

    async def plan(self, under_way: Collection[str] = ()) -> Plan:
        """Return the ranges to copy, besides those in progress, or raise EngineUnreachableError."""
        ...

    async def commit(self, receipts: Sequence[Receipt]) -> Committed:
        """Return the results of the receipts; EngineUnreachableError if there is no answer."""
        ...

    async def checked(self, results: Sequence[SqlChecked]) -> None:
        """Return once the engine has what Spark says of SQL."""
        ...


class Cluster(Protocol):
    """Runs transfers."""

    def run(self, works: Sequence[Work]) -> list[Receipt]:
        """Return one receipt for each range, in the same order; several threads may call it."""
        ...

    def check(self, sql: tuple[str, str, str, bool]) -> str:
        """Return why Spark refuses the SQL of a pipeline; empty if it does not."""
        ...


class Driver:
    """Runs an engine's plans on a cluster; a long round does not delay others."""

    def __init__(
        self, engine: Engine, cluster: Cluster, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._engine = engine
        self._cluster = cluster
        self._pause = pause
        """Sleeps between attempts; tests pass their own."""
        self._copied = _CopiedReport()
        self._rounds: dict[asyncio.Task[None], Plan] = {}
        """Rounds in progress, with the plans they run."""
        # Its own threads: the default ones would be too few for the rounds of several engines.
        self._threads = ThreadPoolExecutor(LONG_ROUNDS + 2)
        self._checking = BackgroundTasks()
        self._misses = 0
        """How many plans or rounds in a row failed."""

    async def drive(self) -> None:
        """Run rounds until cancelled; wait for an engine that does not answer, however long."""
        try:
            while True:
                await self._next_round()
                await self._pause(pause_s(self._misses) if self._misses else IDLE_PAUSE_S)
        finally:
            for task in self._rounds:
                task.cancel()
            await asyncio.gather(*self._rounds, return_exceptions=True)
            self._checking.cancel()
            self._threads.shutdown(wait=False)

    async def _next_round(self) -> None:
        """Begin a round once there is a plan and room for it."""
        while not has_room(list(self._rounds.values())):
            await self._round_ends()
        asking = asyncio.create_task(self._engine.plan(self._under_way()))
        try:
            while not asking.done():
                await self._round_ends(asking)
            self._begin(asking.result())
        except EngineUnreachableError as error:
            # Log it once: an engine may be away for days.
            level = logging.DEBUG if self._misses else logging.WARNING
            logger.log(level, "waiting for the engine: %s", error)
            self._misses += 1
        finally:
            asking.cancel()

    def _under_way(self) -> list[str]:
        return [work.id for plan in self._rounds.values() for work in plan.works]

    def _begin(self, plan: Plan) -> None:
        if plan.checks:
            self._checking.start(self._check(plan.checks), "check SQL")
        # Ranges with a pipeline take longer: others do not wait for them.
        piped = tuple(work for work in plan.works if work.pipeline is not None)
        plain = tuple(work for work in plan.works if work.pipeline is None)
        for works in filter(None, (plain, piped)):
            part = Plan(works=works)
            self._rounds[asyncio.create_task(self._round(part))] = part
        if not plan.works:
            self._misses = 0
            self._copied.report()

    async def _round_ends(self, *others: asyncio.Task[Plan]) -> None:
        """Return once a round or one of the other tasks has ended; raise the error of a failed round."""
        waited: set[asyncio.Task[Any]] = {*self._rounds, *others}
        done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        for task in done & self._rounds.keys():
            del self._rounds[task]
            task.result()

    async def _round(self, plan: Plan) -> None:
        """Run a plan as a job and commit its receipts."""
        began = time.monotonic()
        loop = asyncio.get_running_loop()
        receipts = await loop.run_in_executor(self._threads, self._cluster.run, plan.works)
        refusals = 0
        try:
            for portion in portions(receipts):
                committed = await self._commit(portion)
                refusals += _warn(portion, committed)
                self._copied.messages += sum(committed.taken)
        except EngineUnreachableError as error:
            logger.warning("cannot commit receipts: %s", error)
            refusals = len(receipts)
        self._misses = 0 if refusals < len(receipts) else self._misses + 1
        self._copied.rounds += 1
        self._copied.busy_s += time.monotonic() - began
        self._copied.report()

    async def _check(self, checks: Sequence[SqlCheck]) -> None:
        """Have Spark check SQL, and send the engine what it says."""
        loop = asyncio.get_running_loop()
        for check in checks:
            reason = await loop.run_in_executor(self._threads, self._cluster.check, check.sql)
            try:
                await self._engine.checked([SqlChecked(id=check.id, reason=reason)])
            except EngineUnreachableError as error:
                logger.warning("cannot send what Spark says of SQL: %s", error)

    async def _commit(self, receipts: Sequence[Receipt]) -> Committed:
        """Commit receipts; send them again if there is no answer: the engine commits them only once."""
        for attempt in range(1, COMMIT_ATTEMPTS):
            try:
                return await self._engine.commit(receipts)
            except EngineUnreachableError as error:
                logger.info("sending receipts again: %s", error)
                await self._pause(pause_s(attempt))
        return await self._engine.commit(receipts)


def has_room(plans: Sequence[Plan]) -> bool:
    """Return whether another round may run next to these: one of tails, and a few long or piped ones.

    Tails that arrive while others are in progress wait for them, and then share a job.
    """
    long = [plan for plan in plans if any(work.files or work.origin or work.pipeline for work in plan.works)]
    return len(long) == len(plans) < LONG_ROUNDS


def pause_s(misses: int) -> float:
    """Return how long to wait after this many failures in a row."""
    return wait_s(misses, FIRST_PAUSE_S, LONGEST_PAUSE_S)


def _warn(receipts: Sequence[Receipt], committed: Committed) -> int:
    """Log which receipts were refused and why; return how many."""
    for receipt, refused in zip(receipts, committed.refused, strict=False):
        if refused:
            what = {"target": receipt.target, "upstream": receipt.upstream, "reason": refused}
            logger.warning("not copied", extra=what)
    return sum(bool(refused) for refused in committed.refused)


class _CopiedReport:
    """Copied messages since the last log line; the first line is immediate, then one every few seconds."""

    def __init__(self) -> None:
        self.messages = 0
        self.rounds = 0
        self.busy_s = 0.0
        """Seconds that rounds took, added up."""
        self._reported = -math.inf
        """When the last line was logged, by the monotonic clock."""

    def report(self) -> None:
        """Log the sum, if there is one and the last line is old enough."""
        now = time.monotonic()
        if not self.messages or now - self._reported < REPORT_S:
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
        self._reported = now
        self.messages = self.rounds = 0
        self.busy_s = 0.0
