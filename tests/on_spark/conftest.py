"""One Spark for all tests that need one; they are skipped, with the reason, where it cannot run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.replication.spark import SparkCluster
from java import require_java


@pytest.fixture(scope="session", autouse=True)
def java() -> None:
    """Skip where there is no Java."""
    require_java()


@pytest.fixture(scope="session")
def cluster(java: None) -> Iterator[SparkCluster]:
    """Spark on two cores of this machine."""
    running = SparkCluster("local[2]", "512m")
    yield running
    running.stop()
