"""How large the micro-batches of a query are."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from headwater.spark.following_reader import next_offset


def test_a_micro_batch_takes_no_more_than_it_may() -> None:
    assert next_offset(10, 100, ReadMaxRows(30)) == 40
    assert next_offset(90, 100, ReadMaxRows(30)) == 100
    assert next_offset(90, 100, ReadAllAvailable()) == 100


def test_a_stream_that_became_shorter_takes_nothing_back() -> None:
    assert next_offset(90, 5, ReadMaxRows(30)) == 90
