"""Which messages leave because nobody holds them any more, found run by run so that the stream goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import numpy as np
import numpy.typing as npt

from headwater.model.run import Run
from headwater.stream.retention.removal import Removal
from headwater.stream.store import Store

Rows = npt.NDArray[np.intp]
Released = Callable[[Run, Rows], Rows]
"""Returns which of these live rows nobody holds any more."""


async def removals(store: Store, released: Released, start_seq: int, stop_seq: int) -> AsyncIterator[Removal]:
    """Yield what leaves of a range; each removal must be applied before the next is asked for."""
    seq = max(start_seq, store.ledger.first_seq)
    while seq <= stop_seq:
        run = await store.view.run_at(seq)
        if run is None:
            return
        rows = store.ledger.live_rows(run, seq)
        rows = rows[run.seqs[rows] <= stop_seq]
        if len(rows):
            rows = released(run, rows)
        seq = int(run.seqs[-1]) + 1
        if len(rows):
            removal = Removal()
            removal.take(run, rows, store.overhead)
            yield removal
