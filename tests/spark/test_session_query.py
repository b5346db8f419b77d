"""What Spark says about a query is shortened to its sentences; on_spark/test_sql.py runs queries."""

from __future__ import annotations

import pytest

from headwater.spark.session_query import reason_of

MISSING = """[TABLE_OR_VIEW_NOT_FOUND] The table or view `x` cannot be found. SQLSTATE: 42P01; line 1 pos 14;
'Project [*]
+- 'UnresolvedRelation [x], [], false
"""
DIVIDED = """[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012
== SQL (line 1, position 8) ==
SELECT 1/0
       ^^^

JVM stacktrace:
org.apache.spark.SparkArithmeticException
	at org.apache.spark.sql.errors.ExecutionErrors.divideByZeroError(ExecutionErrors.scala:202)
"""
OF_A_TASK = """An error occurred while calling o1.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
	at org.apache.spark.util.ThreadUtils.awaitResult(ThreadUtils.scala:1)
Caused by: org.apache.spark.SparkException: [MALFORMED_RECORD] A record is malformed. SQLSTATE: 22023
"""
OF_OURS = """[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):
  File "range_reader.py", line 1, in read
headwater.errors.BusError: cannot reach nats://127.0.0.1:4222
 SQLSTATE: 38000
"""
TOO_LARGE = "Job aborted: 1100.0 MiB is bigger than spark.driver.maxResultSize 1024.0 MiB"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (MISSING, "[TABLE_OR_VIEW_NOT_FOUND] The table or view `x` cannot be found. SQLSTATE: 42P01"),
        (DIVIDED, DIVIDED.partition("\n\nJVM")[0]),
        (OF_A_TASK, "[MALFORMED_RECORD] A record is malformed. SQLSTATE: 22023"),
        (OF_OURS, "cannot reach nats://127.0.0.1:4222"),
        ("", "RuntimeError('')"),
    ],
)
def test_an_error_is_what_spark_says_without_plans_and_stacks(said: str, expected: str) -> None:
    assert reason_of(RuntimeError(said)) == expected


def test_a_result_that_is_too_large_has_a_remedy() -> None:
    assert reason_of(RuntimeError(TOO_LARGE)).endswith("add a LIMIT, or leave out --spark")
