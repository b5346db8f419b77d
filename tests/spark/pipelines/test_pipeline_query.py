"""Why a query failed, in one sentence; tests/on_spark/test_pipelines.py runs queries."""

from __future__ import annotations

import pytest

from headwater.spark.offset import DataLossError, FollowOffset, StreamExtent, next_seq
from headwater.spark.pipelines.pipeline_query import reason_of


def test_our_own_sentence_is_found_in_the_traceback_of_a_query() -> None:
    text = (
        "[STREAM_FAILED] Query [id = x] terminated with exception: Traceback (most recent call last):\n"
        '  File "a.py", line 1, in read\n'
        "headwater.spark.offset.DataLossError: stream 'A' no longer has messages 1 to 2\n"
        " SQLSTATE: 38000"
    )
    assert reason_of(Exception(text)) == "stream 'A' no longer has messages 1 to 2"


@pytest.mark.parametrize("now", [StreamExtent("new", 8, 9, 1.0), StreamExtent("old", 8, 9, 1.0)])
def test_lost_messages_come_with_what_a_pipelines_user_can_do(now: StreamExtent) -> None:
    with pytest.raises(DataLossError, match="failOnDataLoss") as raised:
        next_seq(FollowOffset(5, "old"), now, "A:B", may_skip=False)
    found = reason_of(Exception(f"headwater.spark.offset.DataLossError: {raised.value}\n SQLSTATE: 38000"))
    assert found.startswith("stream 'A:B' ")
    assert found.endswith("remove the pipeline and add it again, with --start-sequence or --start-time")
    assert "failOnDataLoss" not in found
    assert "checkpoint" not in found


def test_else_the_line_that_names_an_exception_or_the_first() -> None:
    assert (
        reason_of(Exception("An error\njava.io.IOException: disk full\n\tat x"))
        == "java.io.IOException: disk full"
    )
    assert reason_of(Exception("[A] broke\nmore")) == "[A] broke"
    assert reason_of(Exception()) == "Exception"
