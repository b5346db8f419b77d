"""The plan of a pipeline; `tests/on_spark/test_row_jobs.py` runs plans."""

from __future__ import annotations

from headwater.replication.row_plan import READ
from headwater.replication.worker.row_reader import COLUMNS


def test_spark_is_given_the_columns_that_a_task_yields() -> None:
    kinds = {"binary": "BINARY", "int64": "BIGINT", "string": "STRING"}
    said = [f"{field.name} {kinds.get(str(field.type), 'MAP<STRING, ARRAY<STRING>>')}" for field in COLUMNS]
    assert ", ".join(said) == READ
