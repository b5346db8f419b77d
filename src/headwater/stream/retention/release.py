"""Which messages leave because no consumer and no copy needs them, found one run at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import numpy as np
import numpy.typing as npt

from headwater.model.run import Run
from headwater.stream.retention.removal import Removal
from headwater.stream.store import Store

Rows = npt.NDArray[np.intp]
Released = Callable[[Run, Rows], Rows]
"""Returns which of these live rows no consumer and no copy needs any more."""


async def removals(store: Store, released: Released, start_seq: int, stop_seq: int) -> AsyncIterator[Removal]:
    """Yield what leaves of a range; apply each removal before you ask for the next."""
    async for run, rows in store.live_runs(start_seq, stop_seq):
        free = released(run, rows) if len(rows) else rows
        if len(free):
            removal = Removal()
            removal.take(run, free, store.overhead)
            yield removal
