"""An engine that only plans and commits, for tests of the replicator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from headwater.cli.session import flushed
from headwater.replication.proof import ProofCheck
from headwater.replication.work import (
    Committed,
    Plan,
    Receipt,
    SqlCheck,
    SqlChecked,
    Work,
    commit_subject,
    decode_plan_request,
    decode_receipts,
    encode,
    plan_subject,
)
from headwater.replication.worker.transfer import transfer

STORE_ID = "store"
SECRET = b"what a replicator must know"
IDLE_S = 0.05


class FakeEngine:
    """Hands out works until there is a receipt for each, and keeps the receipts."""

    def __init__(self) -> None:
        self._open: list[list[Work]] = []
        self.receipts: asyncio.Queue[Receipt] = asyncio.Queue()
        self.plans_asked = 0
        self.reported_slots: set[tuple[int, int]] = set()
        self.commits = 0
        self.checks: list[SqlCheck] = []
        self.checked_sql: asyncio.Queue[SqlChecked] = asyncio.Queue()
        self.refuse: Callable[[Receipt], str] = lambda receipt: receipt.error

    def offer(self, *works: Work) -> None:
        """Have works copied, in one plan."""
        self._open.append(list(works))

    async def plan(self, under_way: Collection[str] = ()) -> Plan:
        """Return the first works without a receipt that are not under way, or nothing after a while."""
        self.plans_asked += 1
        if self.checks:
            checks, self.checks = tuple(self.checks), []
            return Plan(checks=checks)
        free = [works for works in self._open if not any(work.id in under_way for work in works)]
        if not free:
            await asyncio.sleep(IDLE_S)
        return Plan(works=tuple(free[0]) if free else ())

    async def commit(self, receipts: Sequence[Receipt]) -> Committed:
        """Take receipts of works that are open, but for those that are refused."""
        self.commits += 1
        refused = [self._commit(receipt) for receipt in receipts]
        taken = (0 if why else each.rows for each, why in zip(receipts, refused, strict=True))
        return Committed(taken=tuple(taken), refused=tuple(refused))

    async def checked(self, results: Sequence[SqlChecked]) -> None:
        """Take what Spark says of SQL."""
        for each in results:
            self.checked_sql.put_nowait(each)

    def _commit(self, receipt: Receipt) -> str:
        if not any(work.id == receipt.work for works in self._open for work in works):
            return "the engine does not expect this receipt any more"
        rest = [[work for work in works if work.id != receipt.work] for works in self._open]
        self._open = [works for works in rest if works]
        self.receipts.put_nowait(receipt)
        return self.refuse(receipt)

    async def receipt(self) -> Receipt:
        """Return the next receipt that was handed in."""
        return await asyncio.wait_for(self.receipts.get(), 120)

    async def serve(self, client: Client) -> None:
        """Answer on NATS."""

        proofs = ProofCheck(SECRET)

        async def answer(message: Msg, body_for: Callable[[bytes], Awaitable[bytes]]) -> None:
            proven = proofs.request(message.subject.encode(), message.reply.encode(), message.data)
            if proven is None:
                await message.respond(proofs.refusal)
            else:
                await message.respond(proofs.answer(proven, await body_for(proven.body)))

        async def plan(body: bytes) -> bytes:
            request = decode_plan_request(body)
            self.reported_slots.add((request.slots, request.task_bytes))
            return encode(await self.plan(request.under_way))

        async def commit(body: bytes) -> bytes:
            return encode(await self.commit(decode_receipts(body)))

        async def answer_plan(message: Msg) -> None:
            await answer(message, plan)

        async def answer_commit(message: Msg) -> None:
            await answer(message, commit)

        await client.subscribe(plan_subject(STORE_ID), cb=answer_plan)
        await client.subscribe(commit_subject(STORE_ID), cb=answer_commit)
        await flushed(client)


@asynccontextmanager
async def serving(url: str, engine: FakeEngine) -> AsyncIterator[None]:
    """Let an engine answer at a server."""
    client = await nats.connect(url)
    try:
        await engine.serve(client)
        yield
    finally:
        await client.close()


class Inline:
    """A cluster of this process alone."""

    slots = 3
    task_bytes = 100 << 20

    def __init__(self) -> None:
        self.runs: list[list[str]] = []
        self.stopped = False

    def run(self, works: Sequence[Work]) -> list[Receipt]:
        """Do the works one after the other."""
        self.runs.append([work.id for work in works])
        return [transfer(work) for work in works]

    def check(self, sql: tuple[str, str, str, bool]) -> str:
        """Accept any SQL but one."""
        return "refused" if sql[0] == "bad" else ""

    def stop(self) -> None:
        """Take note."""
        self.stopped = True
