"""One Spark for all tests that need one; they are skipped, with the reason, where it cannot run."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from headwater.replication.spark import SparkCluster, SparkMissingError, check_java


@pytest.fixture(scope="session", autouse=True)
def java() -> None:
    """Skip where there is no Java."""
    try:
        check_java(os.environ)
    except SparkMissingError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def cluster(java: None) -> Iterator[SparkCluster]:
    """Spark on two cores of this machine."""
    running = SparkCluster("local[2]", "512m")
    yield running
    running.stop()
