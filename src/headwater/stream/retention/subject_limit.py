"""Which messages a lowered `max_msgs_per_subject` removes, found one run at a time on a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import numpy.typing as npt

from headwater.model.run import Run
from headwater.stream.retention import rules
from headwater.stream.retention.removal import Removal
from headwater.stream.selection import slices
from headwater.stream.store import Store

HISTORIES = 5_000
"""Of how many subjects, whose sequences are known, messages are removed in one turn of the event loop."""


async def removals(store: Store, limit: int) -> AsyncIterator[Removal]:
    """Yield what exceeds the limit; apply each removal before you ask for the next.

    Messages that arrive meanwhile keep the limit of their subject themselves.
    """
    over = await _over(store, limit)
    if store.ledger.subjects.history is not None:
        for start in range(0, len(over), HISTORIES):
            some = over[start : start + HISTORIES]
            yield rules.over_subject_limit(limit, store.ledger, store.view.read_run_at, some)
            await asyncio.sleep(0)
        return
    left = set(over)
    if not left:
        return
    async for run, rows in store.live_runs(0):
        removal = Removal()
        removal.take(run, _excess(store, run, rows, limit, left), store.overhead)
        if removal:
            yield removal
        if not left:
            return


async def _over(store: Store, limit: int) -> list[bytes]:
    """Return the subjects with more messages than the limit."""
    index, over = store.ledger.subjects, list[bytes]()
    for some in slices(list(index.count)):
        over += [subject for subject in some if index.count.get(subject, 0) > limit]
        await asyncio.sleep(0)
    return over


def _excess(
    store: Store, run: Run, rows: npt.NDArray[np.intp], limit: int, left: set[bytes]
) -> npt.NDArray[np.intp]:
    """Return the rows that exceed the limit of their subjects, which are the oldest of each.

    The walk begins at the first message. So each earlier message of a subject was passed when there were at
    least as many as now. A subject that is within the limit leaves `left`.
    """
    count, subjects, chosen = store.ledger.subjects.count, run.subjects, list[int]()
    taken: dict[bytes, int] = {}
    for row in rows.tolist():
        subject = subjects[row]
        if subject not in left:
            continue
        known = taken.get(subject, 0)
        if count.get(subject, 0) - known > limit:
            taken[subject] = known + 1
            chosen.append(row)
        else:
            left.discard(subject)
    return np.array(chosen, dtype=np.intp)
