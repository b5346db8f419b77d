"""A runner without Spark: it accepts what its test says, and reports what it is given."""

from __future__ import annotations

from headwater.bus.connection import Connection
from headwater.replication.proof import Prover, UnprovenError
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

    def __init__(self, connection: Connection, name: str = "r1", secret: bytes = SECRET) -> None:
        self._connection = connection
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
            sent.append(self._prover.request(SUBJECT.encode(), reply, report))
            return sent[0]

        frame = await self._connection.request(SUBJECT.encode(), request, 60)
        return decoded(RunnerOrders, self._prover.answer(sent[0], frame[3]))
