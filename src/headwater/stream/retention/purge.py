"""Which messages a purge removes, found one run at a time so that the stream keeps working."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import numpy as np
import numpy.typing as npt

from headwater.model.run import Run
from headwater.model.subject import Filter
from headwater.stream.retention.removal import Removal
from headwater.stream.store import Store

Rows = npt.NDArray[np.intp]


async def removals(
    store: Store, pattern: str, below_seq: int, leave: int, count: Callable[[], Awaitable[int]]
) -> AsyncIterator[Removal]:
    """Yield what to remove: matching messages below a sequence, except the newest `leave`.

    `count` returns how many match now; it is asked only if some are left. Apply each removal before you ask
    for the next.
    """
    chosen = Filter(pattern) if pattern and pattern != ">" else None
    left = await count() - leave if leave else below_seq
    seen = _removed(store)
    if left <= 0:
        return
    async for run, live in store.live_runs(0, below_seq - 1):
        rows = _matching(run, live, chosen)
        if leave and seen != _removed(store):
            # Another removal came in between, such as a second purge: its messages are not among the newest.
            left = await count() - leave
            rows = rows[store.ledger.live_mask(run.seqs[rows])]
        rows = rows[: max(left, 0)]
        if len(rows):
            removal = Removal()
            removal.take(run, rows, store.overhead)
            left -= len(rows)
            yield removal
            seen = _removed(store)
        if left <= 0:
            return


def _matching(run: Run, live: Rows, chosen: Filter | None) -> Rows:
    """Return those of the live rows whose subjects match."""
    if chosen is None:
        return live
    subjects = run.subjects
    return np.array([row for row in live.tolist() if chosen.matches(subjects[row])], dtype=np.intp)


def _removed(store: Store) -> tuple[int, int]:
    """Return what changes with every removal from the stream."""
    return store.generation, store.ledger.removed_bytes
