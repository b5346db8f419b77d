"""The Spark of a command: its options, and its errors where it cannot run; on_spark/test_sql.py runs it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from headwater.replication.spark import SparkMissingError
from headwater.spark.quiet_session import _errors_to, _reason, check_spark, session_options


def test_a_query_has_its_own_name_and_java_options() -> None:
    options = session_options("local[2]", "3g", {})
    assert options["spark.app.name"] == "headwater-sql"
    assert options["spark.driver.memory"] == "3g"
    assert "TieredStopAtLevel" not in options["spark.driver.extraJavaOptions"]
    submitted = session_options("local[2]", "3g", {"PYSPARK_GATEWAY_PORT": "1"})
    assert "spark.driver.extraJavaOptions" not in submitted


def test_without_java_or_pyspark_the_error_has_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as without_java:
        without_java.setenv("JAVA_HOME", str(tmp_path))
        with pytest.raises(SparkMissingError, match=r"Java 17 is missing.*apt-get install"):
            check_spark()
    monkeypatch.setattr("headwater.spark.quiet_session.check_java", lambda environ: None)
    monkeypatch.setattr("headwater.spark.quiet_session.find_spec", lambda name: None)
    with pytest.raises(SparkMissingError, match=r"pyspark is missing: pip install"):
        check_spark()


def test_what_processes_write_meanwhile_is_in_the_log_and_its_end_explains_an_error() -> None:
    with tempfile.TemporaryFile() as log:
        with _errors_to(log):
            os.write(2, b"1\n2\n3\n4\n5\nno memory\n")
        said = _reason(RuntimeError("Java gateway process exited\nmore"), log)
    assert said.splitlines() == ["Java gateway process exited", "2", "3", "4", "5", "no memory"]
