"""A replicator without Spark whose pipelines are Python: payloads say `fail`, `none` or how many results."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from control.copiers import Copier, copying
from doors import Door
from headwater.model.row_pipeline import KEY, RowPipeline, stored
from headwater.replication.work import (
    Plan,
    PlanRequest,
    Receipt,
    SqlCheck,
    SqlChecked,
    Work,
    check_subject,
    decode_plan,
    encode,
    plan_subject,
)
from headwater.replication.worker.row_faults import Fault
from headwater.replication.worker.row_reader import RowReader, decode_end
from headwater.replication.worker.row_writer import RowWriter
from headwater.replication.worker.transfer import failed, transfer

SPARK_SAYS = "[OUCH] it fails"


def results(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return what a pipeline makes of messages."""
    rows: list[dict[str, Any]] = []
    for row in batch.to_pylist():
        words = row["payload"].split()
        made = {
            **row,
            "__fault": int(Fault.SELECT) if words[0] == b"fail" else None,
            "data": row["payload"].decode(),
        }
        del made["headers"]
        rows += [made] * (int(words[0]) if words[0].isdigit() else 0 if words[0] == b"none" else 1)
    types = {"__fault": pa.int32(), "data": pa.string()}
    fields = [field for field in batch.schema if field.name != "headers"]
    return pa.RecordBatch.from_pylist(rows, pa.schema([*fields, *types.items()]))


def piped(work: Work) -> Receipt:
    """Return the receipt of a range, with or without a pipeline."""
    if work.pipeline is None:
        return transfer(work)
    *batches, last = list(RowReader(work, wants_headers=False))
    end = decode_end(last.column("__end")[0].as_py())
    if end.error:
        return failed(work, end.error)
    with RowWriter(work, ("subject", "data"), makes_several=True) as writer:
        for batch in batches:
            writer.append(results(batch))
        receipt = writer.receipt(end)
        return msgspec.structs.replace(receipt, errors={0: SPARK_SAYS} if writer.samples else {})


class Piper(Copier):
    """A copier that runs and checks pipelines."""

    has_sql = True
    check: Callable[[SqlCheck], str] = staticmethod(lambda check: "")

    async def plan(self) -> Plan:
        request = encode(PlanRequest(name="piper", slots=self.slots, has_sql=self.has_sql))
        return decode_plan(await self._ask(plan_subject(self._store_id).encode(), request))

    async def tick(self) -> int:
        plan = await self.plan()
        for check in plan.checks:
            said = [SqlChecked(id=check.id, reason=self.check(check))]
            await self._ask(check_subject(self._store_id).encode(), encode(said))
        self.works += plan.works
        receipts = self.between([await asyncio.to_thread(piped, work) for work in plan.works])
        return await self.hand_in(receipts) if receipts else 0

    async def declare(self, door: Door, name: str, *, update: bool = False, **pipeline: Any) -> Any:
        """Return the answer to a declaration, while this replicator asks for work."""
        metadata = {KEY: stored([RowPipeline(**pipeline)])}
        config = {"name": name, "sources": [{"name": "O"}], "metadata": metadata}
        verb = "UPDATE" if update else "CREATE"
        asking = asyncio.create_task(door.asker.ask(f"STREAM.{verb}.{name}", config))
        while not asking.done():
            await self.tick()
        return await asking


@asynccontextmanager
async def piping(store: Path) -> AsyncIterator[tuple[Door, Piper]]:
    """Run an engine with such a replicator."""
    async with copying(store) as (door, copier):
        yield door, Piper(door, copier._connection)
