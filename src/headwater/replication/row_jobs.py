"""Ranges with a pipeline as Spark jobs: one for each distinct SQL, with one task per range.

A task reads a range in Python, Spark evaluates the SQL in Java, and Python writes the results. Nothing is
shuffled, so the order of messages stays.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from headwater.model import headers as header_block
from headwater.replication.row_plan import READ, SESSION, RowPlan
from headwater.replication.row_sql import RowSqlError, spark_reason
from headwater.replication.work import Receipt, Work
from headwater.replication.worker.row_task import WRITTEN, read, write
from headwater.replication.worker.row_writer import RowSample
from headwater.replication.worker.transfer import failed

MOST_PLANS = 64
"""How many checked pipelines are kept."""
EXPLAINED = 8
"""How many failed messages of a job are evaluated again, in the driver, for Spark's error."""
_encode = msgspec.msgpack.Encoder().encode
_decode_receipt = msgspec.msgpack.Decoder(Receipt).decode
_decode_samples = msgspec.msgpack.Decoder(list[RowSample]).decode
Sql = tuple[str, str, str, bool]
ArrowMap = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class RowJobs:
    """Runs ranges with pipelines; several threads may call it."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._session: SparkSession | None = None
        """Made when it is first needed: that takes seconds."""
        self._plans: dict[Sql, RowPlan] = {}
        """The pipelines that were checked, the latest last."""

    def check(self, sql: Sql) -> str:
        """Return why Spark refuses the SQL of a pipeline; empty if it does not."""
        try:
            self._plan(sql)
        except RowSqlError as error:
            return str(error)
        return ""

    def run(self, works: Sequence[Work]) -> list[Receipt]:
        """Return one receipt for each range, in the same order; raise what Spark raises."""
        groups: dict[tuple[Sql, int], list[int]] = defaultdict(list)
        for index, work in enumerate(works):
            assert work.pipeline is not None
            groups[(work.pipeline.sql, work.pipeline.most_bytes)].append(index)
        receipts: dict[int, Receipt] = {}
        for (sql, most_bytes), indexes in groups.items():
            some = [works[index] for index in indexes]
            try:
                answered = self._job(self._plan(sql), some, most_bytes)
            except RowSqlError as error:
                answered = [failed(work, str(error)) for work in some]
            receipts |= zip(indexes, answered, strict=True)
        return [receipts[index] for index in range(len(works))]

    def _job(self, plan: RowPlan, works: Sequence[Work], most_bytes: int) -> list[Receipt]:
        session = self._spark()
        encoded = [_encode(work) for work in works]
        # By name, not by value: executors have the module.
        reading = partial(read, encoded, plan.reads_headers)
        writing = partial(write, encoded, plan.columns, plan.makes_several)
        messages = _mapped(session.range(0, len(works), 1, len(works)), reading, READ)
        rows = _mapped(plan.result(messages, most_bytes), writing, WRITTEN).collect()
        found = {row["work"]: (row["receipt"], row["samples"]) for row in rows}
        left = EXPLAINED
        receipts: list[Receipt] = []
        for index, work in enumerate(works):
            if index not in found:
                receipts.append(failed(work, "its task returned nothing"))
                continue
            receipt, samples = _decode_receipt(found[index][0]), _decode_samples(found[index][1])
            receipts.append(_explained(receipt, samples[:left], plan))
            left -= len(samples[:left])
        return receipts

    def _plan(self, sql: Sql) -> RowPlan:
        session = self._spark()
        with self._lock:
            plan = self._plans.pop(sql, None) or RowPlan(session, sql)
            self._plans[sql] = plan
            while len(self._plans) > MOST_PLANS:
                del self._plans[next(iter(self._plans))]
        return plan

    def _spark(self) -> SparkSession:
        with self._lock:
            if self._session is None:
                self._session = SparkSession(self._context)
                for name, value in SESSION.items():
                    self._session.conf.set(name, value)
            return self._session


def _mapped(frame: DataFrame, mapping: ArrowMap, schema: str) -> DataFrame:
    """Return `mapInArrow`, which asks for pandas and does not use it."""
    function = UserDefinedFunction(mapping, schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    called: Any = function(*(frame[name] for name in frame.columns))
    return ClassicFrame(frame._jdf.mapInArrow(called._jc, False, None), frame.sparkSession)


def _explained(receipt: Receipt, samples: Sequence[RowSample], plan: RowPlan) -> Receipt:
    """Return a receipt with Spark's errors for failed messages."""
    errors: dict[int, str] = {}
    for sample in samples:
        message = (None, sample.seq, sample.ts, sample.origin, sample.headers or None, sample.subject)
        try:
            reason = plan.reason((*message, _map_of(sample.headers), sample.payload))
        except Exception as error:  # py4j's exceptions do not derive from Spark's
            reason = spark_reason(error)
        if reason:
            errors[sample.seq] = reason
    if not errors:
        return receipt
    first = next(iter(errors.values()))
    stopped = receipt.stopped
    if stopped:
        stopped = f"{stopped.partition(':')[0]}: {first}"
    return msgspec.structs.replace(receipt, errors={**errors, 0: first}, stopped=stopped)


def _map_of(headers: bytes) -> dict[str, list[str]] | None:
    found = header_block.to_dict(headers) if headers else None
    if not found:
        return None
    return {k.decode(errors="replace"): [v.decode(errors="replace") for v in vs] for k, vs in found.items()}
