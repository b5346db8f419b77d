"""The engine's side of the exchange with the runner of an account's pipelines.

The runner asks with a report of its queries, and is answered with its orders: at once if they changed, else
after a while. Its request proves a secret that only the engine and its runner have.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from headwater.background_tasks import BackgroundTasks
from headwater.bus.connection import Connection
from headwater.clock import Clock
from headwater.replication.proof import ProofCheck, Proven
from headwater.wire.frames import Frame
from headwater.wire.pipeline import (
    VERSION,
    Pipeline,
    PipelineRequestError,
    PipelineVerdict,
    QueryReport,
    RunnerOrders,
    RunnerReport,
    decoded,
    encoded,
)

logger = logging.getLogger(__name__)

IDLE_S = 2.0
"""How long a runner's request waits for changed orders."""
SILENT_NS = 15_000_000_000
"""A runner that was not heard for so long is taken for gone."""


class RunnerLink:
    """What the engine and one runner know of each other."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        subject: str,
        secret: bytes,
        pipelines: Callable[[], tuple[Pipeline, ...]],
        checkpoints: str,
        prefix: str,
        *,
        is_single: bool = True,
    ) -> None:
        """Answer runners that prove the secret; `is_single` if there is never a second one."""
        self.items: list[Frame] = []
        """Requests that have arrived."""
        self._connection = connection
        self._clock = clock
        self._subject = subject
        self._proofs = ProofCheck(secret)
        self._pipelines = pipelines
        """Returns the pipelines that are to run."""
        self._checkpoints = checkpoints
        self._prefix = prefix
        self._is_single = is_single
        self._checks: dict[str, tuple[Pipeline, asyncio.Future[PipelineVerdict]]] = {}
        """What waits for a verdict, by the id of the pipeline."""
        self._reports: dict[str, QueryReport] = {}
        """The last report of each query, by its id."""
        self._runner = ""
        """The name of the runner that has the orders; empty before the first."""
        self._heard_ns = -SILENT_NS
        self._revision = clock.now_ns()
        """Of the orders; never the same in two runs of the engine."""
        self._changed = asyncio.Event()
        self._running: set[str] = set()
        """The ids of the queries that the runner has."""
        self._heard = asyncio.Event()
        """Set at each report."""
        self._tasks = BackgroundTasks()
        self._sid = b""
        """Our subscription; empty while there is none."""

    def start(self) -> None:
        """Answer runners from now on."""
        self._sid = self._connection.subscribe(self._subject.encode(), self)

    async def close(self) -> None:
        """Answer no more."""
        if self._sid:
            self._connection.unsubscribe(self._sid)
        self._tasks.cancel()
        await self._tasks.ended()
        for _, verdict in self._checks.values():
            verdict.cancel()

    def flush(self) -> None:
        """Begin to answer the requests that have arrived."""
        frames, self.items[:] = list(self.items), []
        for subject, reply, _, body in frames:
            if not reply:
                continue
            proven = self._proofs.request(subject, reply, body)
            if proven is None:
                self._connection.publish(reply, self._proofs.refusal)
            else:
                self._tasks.start(self._answer(reply, proven), "answer the runner of pipelines")

    @property
    def is_heard(self) -> bool:
        """Return whether a runner has asked a short time ago."""
        return self._clock.steady_ns() - self._heard_ns < SILENT_NS

    def report(self, pipeline: Pipeline) -> QueryReport | None:
        """Return the last report of a pipeline, None without one."""
        return self._reports.get(pipeline.id)

    def change(self) -> None:
        """Have the runner get its orders again: they have changed."""
        self._revision += 1
        self._changed.set()

    async def ended(self, pipeline: Pipeline, within_s: float) -> None:
        """Return once the runner does not run a pipeline, or after some time, or without a runner."""
        try:
            async with asyncio.timeout(within_s):
                while pipeline.id in self._running and self.is_heard:
                    self._heard.clear()
                    await self._heard.wait()
        except TimeoutError:
            logger.warning("pipeline %s: the runner has not stopped it yet", pipeline.name)

    def forget(self, pipeline: Pipeline) -> None:
        """Forget what was reported about a pipeline."""
        self._reports.pop(pipeline.id, None)

    async def check(self, pipeline: Pipeline, within_s: float) -> PipelineVerdict | None:
        """Return what the runner says about a pipeline; None if it does not answer in time."""
        verdict: asyncio.Future[PipelineVerdict] = asyncio.get_running_loop().create_future()
        self._checks[pipeline.id] = (pipeline, verdict)
        self.change()
        try:
            async with asyncio.timeout(within_s):
                return await verdict
        except TimeoutError:
            return None
        finally:
            del self._checks[pipeline.id]
            self.change()

    async def _answer(self, reply: bytes, proven: Proven) -> None:
        try:
            report = decoded(RunnerReport, proven.body)
        except PipelineRequestError as error:
            logger.warning("a runner of pipelines: %s", error)
            return
        is_ours = self._is_single or report.runner == self._runner or not self.is_heard
        if is_ours:
            self._take(report)
        if report.revision == self._revision:
            self._changed.clear()
            try:
                async with asyncio.timeout(IDLE_S):
                    await self._changed.wait()
            except TimeoutError:
                pass
        answer = encoded(self._orders(everything=is_ours))
        self._connection.publish(reply, self._proofs.answer(proven, answer))

    def _take(self, report: RunnerReport) -> None:
        if report.runner != self._runner:
            logger.info("a runner of pipelines has asked", extra={"runner": report.runner})
        self._runner, self._heard_ns = report.runner, self._clock.steady_ns()
        self._running = {each.id for each in report.queries}
        self._heard.set()
        known = {each.id for each in self._pipelines()}
        self._reports |= {each.id: each for each in report.queries if each.id in known}
        for verdict in report.verdicts:
            waiting = self._checks.get(verdict.id)
            if waiting is not None and not waiting[1].done():
                waiting[1].set_result(verdict)

    def _orders(self, *, everything: bool) -> RunnerOrders:
        """Return the orders; a second runner gets none while the first is heard."""
        return RunnerOrders(
            version=VERSION,
            revision=self._revision if everything else 0,
            checkpoints=self._checkpoints,
            prefix=self._prefix,
            pipelines=self._pipelines() if everything else (),
            checks=tuple(pipeline for pipeline, _ in self._checks.values()) if everything else (),
        )
