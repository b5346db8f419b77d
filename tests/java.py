"""Whether Spark can run here. Without Java its tests are skipped with the reason; under CI=true they fail."""

from __future__ import annotations

import os

import pytest

from headwater.replication.spark import SparkMissingError, check_java


def missing_java() -> str | None:
    """Return why Spark cannot run here, None if it can; under CI=true that is a failure."""
    try:
        check_java(os.environ)
    except SparkMissingError as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must run the tests on Spark: {missing}", pytrace=False)
        return str(missing)
    return None


def require_java() -> None:
    """Skip the test where Spark cannot run."""
    if reason := missing_java():
        pytest.skip(reason)
