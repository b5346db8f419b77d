"""The queries of one account, as its engine orders them; used on the thread of the Spark session."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pyspark.sql import SparkSession

from headwater.errors import Error
from headwater.replication.spark import SparkLostError
from headwater.spark.pipelines.pipeline_query import PipelineQuery, reason_of
from headwater.spark.pipelines.query_frame import QueryFrame
from headwater.wire.pipeline import (
    VERSION,
    Pipeline,
    PipelineVerdict,
    RunnerOrders,
    RunnerReport,
)

logger = logging.getLogger(__name__)


class Queries:
    """Starts and stops the queries of an account, and checks new ones."""

    def __init__(
        self, spark: SparkSession, runner: str, functions: tuple[str, ...], connection: Mapping[str, str]
    ) -> None:
        self._spark = spark
        self._runner = runner
        self._functions = functions
        self._options = connection
        """The options of the data source that reach the account, without the prefix of its API."""
        self._running: dict[str, PipelineQuery] = {}
        """By the id of the pipeline."""
        self._verdicts: dict[str, PipelineVerdict] = {}
        """Of the pipelines that the engine asks about, by id."""
        self._revision = 0
        """Of the last orders."""

    def report(self) -> RunnerReport:
        """Return the state of all queries; raise SparkLostError if Spark has ended."""
        self._require_spark()
        for query in self._running.values():
            query.tend()
        return RunnerReport(
            version=VERSION,
            runner=self._runner,
            queries=tuple(query.report() for query in self._running.values()),
            verdicts=tuple(self._verdicts.values()),
            revision=self._revision,
        )

    def follow(self, orders: RunnerOrders) -> None:
        """Run what is ordered, and nothing else."""
        connection = {**self._options, "apiPrefix": orders.prefix}
        frames = QueryFrame(self._spark, self._functions, connection)
        wanted = {each.id: each for each in orders.pipelines}
        for key in [key for key in self._running if key not in wanted]:
            self._running.pop(key).stop()
        asked = {each.id for each in orders.checks}
        self._verdicts = {key: verdict for key, verdict in self._verdicts.items() if key in asked}
        for pipeline in orders.checks:
            if pipeline.id not in self._verdicts:
                self._verdicts[pipeline.id] = _verdict(frames, pipeline)
        for key, pipeline in wanted.items():
            if key not in self._running:
                self._running[key] = PipelineQuery(pipeline, frames, connection, orders.checkpoints)
        self._revision = orders.revision

    def stop(self) -> None:
        """End all queries."""
        for query in self._running.values():
            query.stop()
        self._running.clear()

    @property
    def has_verdicts(self) -> bool:
        """Return whether the engine waits for a report."""
        return bool(self._verdicts)

    def _require_spark(self) -> None:
        try:
            if not self._spark.sparkContext._jsc.sc().isStopped():
                return
            reason = "it was stopped"
        except Exception as error:
            reason = reason_of(error)
        raise SparkLostError(f"Spark has ended: {reason}")


def _verdict(frames: QueryFrame, pipeline: Pipeline) -> PipelineVerdict:
    try:
        _, inputs = frames.build(pipeline)
    except Error as error:
        return PipelineVerdict(id=pipeline.id, problem=str(error))
    except Exception as error:
        return PipelineVerdict(id=pipeline.id, problem=reason_of(error))
    return PipelineVerdict(id=pipeline.id, inputs=inputs)
