"""The program that Spark starts as Python, without Spark."""

from __future__ import annotations

import subprocess

from headwater.spark.pipelines.worker_python import worker_python


def test_it_is_an_ordinary_python_for_all_but_workers() -> None:
    ran = subprocess.run([worker_python(), "-c", "print(1 + 1)"], capture_output=True, check=True)
    assert ran.stdout == b"2\n"
