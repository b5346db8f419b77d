"""The progress of Spark's tasks on standard error, without a terminal."""

from __future__ import annotations

import io
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.cli import progress, spark_progress
from headwater.cli.spark_progress import spark_progress as shown


class Tracker:
    """A tracker of two stages; it sets an event once both were looked at."""

    def __init__(self) -> None:
        self.was_read = threading.Event()
        self._looks = 0

    def getActiveStageIds(self) -> list[int]:
        self._looks += 1
        if self._looks > 2:
            self.was_read.set()
        return [self._looks]

    def getStageInfo(self, stage: int) -> Any:
        return SimpleNamespace(numCompletedTasks=stage, numTasks=4) if stage < 3 else None


def test_the_tasks_of_all_stages_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_progress, "POLL_S", 0.001)
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    tracker = Tracker()
    spark = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    with shown(spark, "Spark tasks"):
        assert tracker.was_read.wait(60)
    lines = written.getvalue().splitlines()
    assert lines[0].startswith("Spark tasks: 25%, 1 of 4, ")
    assert lines[1].startswith("Spark tasks: 38%, 3 of 8, ")


def test_a_spark_that_ends_ends_the_progress_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_progress, "POLL_S", 0.001)
    asked = threading.Event()

    def ended() -> Any:
        asked.set()
        raise ConnectionError("Spark has ended")

    tracker = SimpleNamespace(getActiveStageIds=ended)
    spark = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    with shown(spark, "Spark tasks"):
        assert asked.wait(60)
