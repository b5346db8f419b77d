"""The Spark configuration of a runner."""

from __future__ import annotations

import pytest

from headwater.spark.pipelines.runner import APP_NAME, RunnerOptions, session_options


def test_sql_of_clients_sees_no_variables_and_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    found = session_options(RunnerOptions((), "local[2]", "700m"))
    assert found["spark.app.name"] == APP_NAME
    assert found["spark.driver.memory"] == "700m"
    assert found["spark.sql.variable.substitute"] == "false"
    assert found["spark.sql.runSQLOnFiles"] == "false"
    assert found["spark.sql.shuffle.partitions"] == "4"


def test_a_submitted_runner_leaves_the_cluster_to_spark_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    found = session_options(RunnerOptions((), "local[2]", "700m"))
    assert "spark.master" not in found
    assert "spark.sql.shuffle.partitions" not in found
    assert found["spark.sql.variable.substitute"] == "false"
