"""A runner without Spark: it accepts what its test says, and reports what it is given."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from engines import RunningEngine
from headwater.bus.connection import Connection
from headwater.cli.pipeline_run import accounts_of
from headwater.replication.proof import Prover, UnprovenError
from headwater.replication.work import inbox_prefix
from headwater.wire.pipeline import (
    VERSION,
    PipelineVerdict,
    QueryReport,
    RunnerOrders,
    RunnerReport,
    decoded,
    encoded,
    run_subject,
)

SECRET = b"secret"
SUBJECT = run_subject("STORE")


class FakeRunner:
    """Asks an engine for orders."""

    def __init__(
        self, connection: Connection, name: str = "r1", secret: bytes = SECRET, subject: str = SUBJECT
    ) -> None:
        self._connection = connection
        self._subject = subject.encode()
        self._prover = Prover(lambda: secret)
        self.name = name
        self.orders = RunnerOrders(version=VERSION, revision=0)
        self.problem = ""
        self.inputs: tuple[str, ...] = ("A",)
        self.reports: tuple[QueryReport, ...] = ()

    async def ask(self) -> RunnerOrders:
        """Report, follow the orders, and return them."""
        verdicts = tuple(
            PipelineVerdict(id=each.id, problem=self.problem, inputs=self.inputs)
            for each in self.orders.checks
        )
        known = {each.id for each in self.orders.pipelines}
        running = tuple(each for each in self.reports if each.id in known)
        others = tuple(QueryReport(id=key, is_running=True) for key in known - {each.id for each in running})
        report = RunnerReport(
            version=VERSION,
            runner=self.name,
            queries=(*running, *others),
            verdicts=verdicts,
            revision=self.orders.revision,
        )
        try:
            self.orders = await self._once(encoded(report))
        except UnprovenError as error:
            if not error.is_refusal:
                raise
            self.orders = await self._once(encoded(report))
        return self.orders

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await self.ask()

    async def _once(self, report: bytes) -> RunnerOrders:
        sent: list[bytes] = []

        def request(reply: bytes) -> bytes:
            sent.append(self._prover.request(self._subject, reply, report))
            return sent[0]

        frame = await self._connection.request(self._subject, request, 60)
        return decoded(RunnerOrders, self._prover.answer(sent[0], frame[3]))


@asynccontextmanager
async def attached_runner(engine: RunningEngine) -> AsyncIterator[FakeRunner]:
    """Run a runner for an engine that is a process, started with `--pipelines submitted`."""
    store_id = re.findall(r"store id (\w+)", engine.log)[0]
    at = accounts_of(f"{store_id}={engine.store / 'pipelines.toml'}")[0].engine
    connection = Connection(replace(at.options, inbox_prefix=inbox_prefix(store_id)))
    await connection.connect()
    subject = run_subject(store_id, at.seat)
    runner = FakeRunner(connection, secret=at.secret(), subject=subject)
    running = asyncio.create_task(runner.run())
    try:
        yield runner
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await connection.close()
