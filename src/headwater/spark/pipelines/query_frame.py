"""The DataFrame of a pipeline: its streams as views of a session, and the query over them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headwater.errors import Error, SettingsError
from headwater.model.payload_schema import schema_in
from headwater.replication.worker.client import BlockingClient
from headwater.replication.worker.origin import connect_options
from headwater.spark.connection_options import origin_of
from headwater.spark.decoding import decode
from headwater.spark.pipelines.message_frame import message_frame
from headwater.spark.pipelines.sql_check import RefusedSqlError, checked_sql, message_of
from headwater.wire.pipeline import UPDATE, Pipeline

SESSION = {
    # `${env:HOME}` in SQL would show variables of this process.
    "spark.sql.variable.substitute": "false",
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.session.timeZone": "UTC",
}
"""Settings of the application. A session's own do not count: the parser uses those of the active session."""


class QueryFrame:
    """Builds the messages of pipelines, for functions that the operator allows."""

    def __init__(self, spark: SparkSession, functions: Sequence[str], connection: Mapping[str, str]) -> None:
        self._spark = spark
        self._functions = functions
        self._connection = connection
        """The options of the data source that reach the account."""

    def build(self, pipeline: Pipeline) -> tuple[DataFrame, tuple[str, ...]]:
        """Return the messages of a pipeline, and the streams that it reads; raise if it cannot run."""
        session = self._spark.newSession()
        try:
            frame, inputs = self._frame(session, pipeline)
            if not frame.isStreaming:
                raise SettingsError("the query reads no stream")
            messages = message_frame(frame, pipeline.subject)
            _require_streaming(session, messages, pipeline)
        except Error:
            raise
        except Exception as error:  # Spark has many exception classes, and py4j's do not derive from them
            raise RefusedSqlError(message_of(error)) from None
        return messages, inputs

    def _frame(self, session: SparkSession, pipeline: Pipeline) -> tuple[DataFrame, tuple[str, ...]]:
        if pipeline.function:
            run = self._function(pipeline.function)
            frames = {name: self._stream(session, pipeline, name) for name in pipeline.inputs}
            found = run(session, frames)
            if not isinstance(found, DataFrame):
                raise SettingsError(f"function {pipeline.function} returned no DataFrame")
            return found, pipeline.inputs
        checked = checked_sql(session, pipeline.sql)
        for name in checked.inputs:
            view = "`" + name.replace("`", "``") + "`"
            self._stream(session, pipeline, name).createOrReplaceTempView(view)
        return session.sql(checked.text), checked.inputs

    def _function(self, name: str) -> Any:
        if name not in self._functions:
            raise SettingsError(f"function {name!r} is not in the runner's setting pipeline_functions")
        module, _, attribute = name.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except Exception as error:
            raise SettingsError(f"cannot import {name}: {error}") from None

    def _stream(self, session: SparkSession, pipeline: Pipeline, name: str) -> DataFrame:
        """Return a stream as a streaming DataFrame, decoded if it has a schema."""
        options = {**self._connection, "stream": name, "maxMessagesPerTrigger": str(pipeline.max_messages)}
        if pipeline.start_seq:
            options["startSequence"] = str(pipeline.start_seq)
        if pipeline.start_time:
            options["startTime"] = pipeline.start_time
        frame = session.readStream.format("headwater").options(**options).load()
        schema = schema_in(stream_info(self._connection, name)["config"].get("metadata"))
        return frame if schema is None else decode(frame, "json", schema)


def stream_info(connection: Mapping[str, str], name: str) -> dict[str, Any]:
    """Return the info of a stream; raise if there is none."""
    origin = origin_of(connection, name)
    with BlockingClient(connect_options(origin)) as client:
        answer = client.request(f"{origin.api_prefix}.STREAM.INFO.{name}")
    if error := answer.get("error"):
        raise SettingsError(f"stream {name!r}: {error.get('description')}")
    return answer


def _require_streaming(session: SparkSession, frame: DataFrame, pipeline: Pipeline) -> None:
    """Raise what Spark says if it cannot run the query batch by batch."""
    jvm: Any = session._jvm
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    mode = modes.Update() if pipeline.output == UPDATE else modes.Append()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), mode)
