"""Why a query failed, in one sentence; tests/on_spark/test_pipelines.py runs queries."""

from __future__ import annotations

from headwater.spark.pipelines.pipeline_query import reason_of


def test_our_own_sentence_is_found_in_the_traceback_of_a_query() -> None:
    text = (
        "[STREAM_FAILED] Query [id = x] terminated with exception: Traceback (most recent call last):\n"
        '  File "a.py", line 1, in read\n'
        "headwater.spark.offset.DataLossError: stream 'A' no longer has messages 1 to 2\n"
        " SQLSTATE: 38000"
    )
    assert reason_of(Exception(text)) == "stream 'A' no longer has messages 1 to 2"


def test_else_the_line_that_names_an_exception_or_the_first() -> None:
    assert (
        reason_of(Exception("An error\njava.io.IOException: disk full\n\tat x"))
        == "java.io.IOException: disk full"
    )
    assert reason_of(Exception("[A] broke\nmore")) == "[A] broke"
    assert reason_of(Exception()) == "Exception"
