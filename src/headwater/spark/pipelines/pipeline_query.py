"""One pipeline as a query of Spark: started, watched, started again when it fails, and stopped.

Everything here runs on the thread of the Spark session: on another, Spark does not find Python data sources.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from headwater.backoff import Backoff
from headwater.errors import Error
from headwater.spark.bulk_client import bulk_client
from headwater.spark.connection_options import origin_of
from headwater.spark.pipelines.checkpoint import CheckpointError, PipelineCheckpoint
from headwater.spark.pipelines.query_frame import QueryFrame, stream_info
from headwater.wire.pipeline import UPDATE, Pipeline, QueryReport, ReadOffset

logger = logging.getLogger(__name__)

FIRST_WAIT_S, LONGEST_WAIT_S, SETTLED_S = 1.0, 30.0, 60.0
_OURS = re.compile(r"headwater\.[\w.]*Error: (.+)")
_READER_ADVICE = re.compile(r": [^:]*\bfailOnDataLoss\b.*")
"""What users of the data source can do about lost messages. Pipelines do not have its options."""
_PIPELINE_ADVICE = (
    ": to go on with the messages that are there, remove the pipeline and add it again, with "
    "--start-sequence or --start-time"
)
_BUSY = "failed to connect back"
"""Spark waits ten seconds for a Python process to start. Where the cores are busy that takes longer."""
MOST_PROBLEM = 1_000


class PipelineQuery:
    """The query of one pipeline."""

    def __init__(
        self, pipeline: Pipeline, frames: QueryFrame, connection: Mapping[str, str], checkpoints: str
    ) -> None:
        self.pipeline = pipeline
        self._frames = frames
        self._connection = connection
        self._checkpoint = PipelineCheckpoint.of(checkpoints, pipeline)
        self._query: Any = None
        """Spark's query; None while it does not run."""
        self._lock: Any = None
        """Keeps another process from running the same query; None while it does not run."""
        self._waits = Backoff(FIRST_WAIT_S, LONGEST_WAIT_S, SETTLED_S)
        self._next_start = 0.0
        self._started = 0.0
        self._starts = 0
        self._problem = ""
        self._counted = (-1, "")
        """The batch and the time of the last progress that was counted."""
        self._messages_in = 0
        self._last: dict[str, Any] = {}
        """The last progress of the query."""

    def tend(self) -> None:
        """Start the query if it does not run and its wait is over; notice a failure."""
        if self._query is not None:
            self._count()
            if self._query.isActive:
                return
            self._fail(reason_of(self._query.exception()))
        if time.monotonic() >= self._next_start:
            self._start()

    def stop(self) -> None:
        """End the query; its checkpoint stays."""
        if self._query is not None:
            try:
                self._query.stop()
            except Exception as error:
                logger.warning("pipeline %s: cannot stop: %s", self.pipeline.name, reason_of(error))
        self._release()

    def report(self) -> QueryReport:
        """Return how the query is doing."""
        progress = self._last
        sources = progress.get("sources") or []
        read = [each["endOffset"] for each in sources if each.get("endOffset")]
        return QueryReport(
            id=self.pipeline.id,
            is_running=self._query is not None,
            problem=self._problem,
            batch=int(progress.get("batchId", -1)),
            offsets=tuple(ReadOffset(int(each["seq"]), str(each["created"])) for each in read),
            messages_in=self._messages_in,
            rate=_finite(progress.get("processedRowsPerSecond")) if progress.get("numInputRows") else 0.0,
            batch_ms=int(progress.get("batchDuration") or 0),
            state_rows=sum(int(each.get("numRowsTotal", 0)) for each in progress.get("stateOperators") or ()),
            watermark=str((progress.get("eventTime") or {}).get("watermark", "")),
            starts=self._starts,
        )

    def _start(self) -> None:
        self._started = time.monotonic()
        try:
            frame, _ = self._frames.build(self.pipeline)
            created = self._prepare(frame)
            self._query = self._begin(frame, created)
        except Exception as error:
            self._fail(str(error) if isinstance(error, Error) else reason_of(error))
            return
        self._starts += 1
        logger.info("pipeline %s runs", self.pipeline.name, extra={"starts": self._starts})

    def _prepare(self, frame: DataFrame) -> str:
        """Return when the target was created; raise if the checkpoint does not fit it, or is in use."""
        pipeline = self.pipeline
        created = str(stream_info(self._connection, pipeline.target).get("created", ""))
        with bulk_client(origin_of(self._connection, pipeline.target)) as client:
            last_stored = client.last_batch(pipeline.id)
        self._checkpoint.prepare(pipeline.id, created, last_stored)
        self._lock = locked(frame, self._checkpoint.path / "lock")
        return created

    def _begin(self, frame: DataFrame, created: str) -> Any:
        pipeline = self.pipeline
        sink = {
            **self._connection,
            "stream": pipeline.target,
            "mode": "engine",
            "streamCreated": created,
        }
        writer = (
            frame.writeStream.outputMode(pipeline.output)
            .option("checkpointLocation", str(self._checkpoint.location))
            .trigger(processingTime=f"{round(pipeline.every_s * 1000)} milliseconds")
        )
        if pipeline.output != UPDATE:
            return writer.format("headwater").options(**sink).start()

        def write(batch: DataFrame, number: int) -> None:
            # Spark's sinks in Python do not take updates; a batch is written once all the same.
            named = {**sink, "queryId": pipeline.id, "batchId": str(number)}
            batch.write.format("headwater").mode("append").options(**named).save()

        return writer.foreachBatch(write).start()

    def _count(self) -> None:
        for progress in self._query.recentProgress:
            each = json.loads(progress.json)
            key = (int(each["batchId"]), str(each["timestamp"]))
            if key > self._counted:
                self._counted = key
                self._messages_in += int(each.get("numInputRows") or 0)
                self._last = each
        if self._last and time.monotonic() - self._started > FIRST_WAIT_S:
            self._problem = ""

    def _fail(self, problem: str) -> None:
        self._release()
        wait_s = self._waits.next_s(time.monotonic() - self._started)
        if _BUSY in problem:
            wait_s = FIRST_WAIT_S
        self._next_start = time.monotonic() + wait_s
        if problem != self._problem:
            logger.error("pipeline %s: %s; next start in %g s", self.pipeline.name, problem, wait_s)
        self._problem = problem[:MOST_PROBLEM]

    def _release(self) -> None:
        self._query = None
        self._counted = (-1, "")
        if self._lock is not None:
            self._lock.channel().close()
            self._lock = None


def locked(frame: DataFrame, path: Path) -> Any:
    """Return a lock on a file that ends with the JVM, which runs the query and may outlive this process."""
    jvm: Any = frame.sparkSession._jvm
    lock = jvm.java.io.RandomAccessFile(str(path), "rw").getChannel().tryLock()
    if lock is None:
        raise CheckpointError(
            f"another process uses the checkpoint {path.parent}: it is started when that ends"
        )
    return lock


def reason_of(error: object) -> str:
    """Return the sentence of a failed query that helps: ours if there is one, else Spark's first line."""
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        return _READER_ADVICE.sub(_PIPELINE_ADVICE, str(ours[-1]).strip())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "Exception" in line), lines[0] if lines else type(error).__name__)


def _finite(value: Any) -> float:
    number = float(value or 0.0)
    return number if 0.0 <= number < 1e15 else 0.0
