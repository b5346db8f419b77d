"""Which messages a purge takes out, found run by run so that the stream goes on meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np

from headwater.model.subject import Filter
from headwater.stream.retention.removal import Removal
from headwater.stream.store import Store


async def removals(
    store: Store, pattern: str, below_seq: int, leave: int, total: int
) -> AsyncIterator[Removal]:
    """Yield what to remove: messages that match and stand below a sequence, but for the newest `leave`.

    `total` is how many match below the sequence. Each removal must be applied before the next is asked for.
    """
    chosen = Filter(pattern) if pattern and pattern != ">" else None
    left = total - leave
    seq = store.ledger.first_seq
    while left > 0 and seq < below_seq:
        run = await store.view.run_at(seq)
        if run is None:
            return
        rows = store.ledger.live_rows(run, seq)
        rows = rows[run.seqs[rows] < below_seq]
        if chosen is not None:
            subjects = run.subjects
            rows = np.array([r for r in rows.tolist() if chosen.matches(subjects[r])], dtype=np.intp)
        rows = rows[:left]
        seq = int(run.seqs[-1]) + 1
        if len(rows):
            removal = Removal()
            removal.take(run, rows, store.overhead)
            left -= len(rows)
            yield removal
