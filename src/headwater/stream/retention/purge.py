"""Which messages a purge removes, found one run at a time so that the stream keeps working."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np

from headwater.model.subject import Filter
from headwater.stream.retention.removal import Removal
from headwater.stream.store import Store


async def removals(
    store: Store, pattern: str, below_seq: int, leave: int, total: int
) -> AsyncIterator[Removal]:
    """Yield what to remove: matching messages below a sequence, except the newest `leave`.

    `total` is how many match below the sequence. Apply each removal before you ask for the next.
    """
    chosen = Filter(pattern) if pattern and pattern != ">" else None
    left = total - leave
    if left <= 0:
        return
    async for run, live in store.live_runs(0, below_seq - 1):
        rows = live
        if chosen is not None:
            subjects = run.subjects
            rows = np.array([r for r in live.tolist() if chosen.matches(subjects[r])], dtype=np.intp)
        rows = rows[:left]
        if len(rows):
            removal = Removal()
            removal.take(run, rows, store.overhead)
            left -= len(rows)
            yield removal
        if left <= 0:
            return
