"""The progress of Spark's tasks while a command waits for their result."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headwater.cli.progress import Meter

POLL_S = 0.5
_JOINED_S = 5.0


@contextmanager
def spark_progress(spark: Any, what: str, *, shown: bool = True) -> Iterator[Meter]:
    """Show how many tasks of the running stages are done, until the block ends."""
    ended = threading.Event()
    with Meter(what, shown=shown) as meter:
        watching = threading.Thread(
            target=_watch, args=(spark.sparkContext.statusTracker(), meter, ended), daemon=True
        )
        watching.start()
        try:
            yield meter
        finally:
            ended.set()
            watching.join(_JOINED_S)
            meter.finish()


def _watch(tracker: Any, meter: Meter, ended: threading.Event) -> None:
    done: dict[int, tuple[int, int]] = {}
    """By stage, how many of its tasks are done, and how many it has."""
    seen = done.copy()
    while not ended.wait(POLL_S):
        try:
            for stage in tracker.getActiveStageIds():
                if info := tracker.getStageInfo(stage):
                    done[stage] = (info.numCompletedTasks, info.numTasks)
        except Exception:  # Spark ends, and the command says why
            return
        if done != seen:
            seen = done.copy()
            meter.total = sum(total for _, total in done.values())
            meter.reach(sum(finished for finished, _ in done.values()))
