"""A query of a Spark session, with its rows as Arrow record batches."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.errors import Error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"
_CANCELLED = "SPARK_JOB_CANCELLED"
_TOO_LARGE = "spark.driver.maxResultSize"
_RAISED = re.compile(r"^\s*headwater(?:\.\w+)+: (.+)$", re.M)
"""What our data source raised in a task."""
_CONDITION = re.compile(r"\[[A-Z][A-Z_.]+\] .+")
_PLAN = re.compile(r"; line \d+ pos \d+;\n")
_TRACE = ("at org.", "at java.", "JVM stacktrace", "Traceback (most recent call last)")


class QueryFailedError(Error):
    """An engine does not run a query; the text is the engine's."""


FindFrame = Callable[[str], "DataFrame | None"]
"""Returns the rows of a table's name, or None if there is no such table."""


def query(spark: SparkSession, sql: str, find: FindFrame, most: int | None = None) -> pa.RecordBatchReader:
    """Return the rows of a query, at most as many as asked for; they are all in memory.

    Spark's own limit for them is `spark.driver.maxResultSize`, 1 GiB by default.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        frame = _analysed(spark, sql, find)
        if not frame.columns:
            raise QueryFailedError("the statement returns no rows: write a SELECT")
        return (frame if most is None else frame.limit(most)).toArrow().to_reader()
    except (PySparkException, Py4JError) as error:
        if _CANCELLED in str(error):
            # PySpark cancels all jobs on Ctrl-C, and may return this error instead of the interrupt.
            raise KeyboardInterrupt from None
        raise QueryFailedError(reason_of(error)) from None


def _analysed(spark: SparkSession, sql: str, find: FindFrame) -> DataFrame:
    """Return the query; each table that Spark misses is added, so that no other stream is looked at."""
    from pyspark.errors import AnalysisException

    added: set[str] = set()
    while True:
        try:
            return spark.sql(sql)
        except AnalysisException as error:
            name = _missing_table(error)
            found = find(name) if name and name not in added else None
            if found is None:
                raise
            found.createOrReplaceTempView("`" + name.replace("`", "``") + "`")
            added.add(name)


def _missing_table(error: Exception) -> str:
    """Return the name of the table that a query lacks; "" if that is not what is wrong."""
    from pyspark.errors import AnalysisException

    assert isinstance(error, AnalysisException)
    if error.getCondition() != _NOT_FOUND:
        return ""
    quoted = (error.getMessageParameters() or {}).get("relationName", "")
    name = quoted.removeprefix("`").removesuffix("`")
    # With a database or a catalogue before it, the name is no stream's.
    return "" if "`.`" in name else name.replace("``", "`")


def reason_of(error: Exception) -> str:
    """Return what Spark says, without plans and the stacks of Java and Python."""
    text = str(error).strip()
    if _TOO_LARGE in text:
        return f"the result is larger than Spark returns ({_TOO_LARGE}): add a LIMIT, or leave out --spark"
    if raised := _RAISED.search(text):
        return raised[1]
    if not text.startswith("[") and (condition := _CONDITION.search(text)):
        return condition[0].strip()
    lines = _PLAN.split(text, maxsplit=1)[0].splitlines()
    end = next((at for at, line in enumerate(lines) if line.strip().startswith(_TRACE)), len(lines))
    return "\n".join(lines[:end]).strip() or repr(error)
