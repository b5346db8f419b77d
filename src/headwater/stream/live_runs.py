"""The walk over the live messages of a stream, one run at a time.

Every reader of a range of sequences uses it: `read_live_runs` where blocking is allowed or the runs are in
memory, `Store.live_runs` on the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headwater.model.run import Run
from headwater.stream.ledger import Ledger

ReadRun = Callable[[int], Run | None]
"""Returns the first run with a row at or after a sequence."""


class LiveRun(NamedTuple):
    """A run and the rows of it that are alive and in the range of the walk; there may be none."""

    run: Run
    rows: npt.NDArray[np.intp]


def live_part(ledger: Ledger, run: Run, start_seq: int, stop_seq: int | None) -> LiveRun:
    """Return a run with its live rows from `start_seq` to `stop_seq`, both included."""
    rows = ledger.live_rows(run, start_seq)
    if stop_seq is not None and run.seqs[-1] > stop_seq:
        rows = rows[run.seqs[rows] <= stop_seq]
    return LiveRun(run, rows)


def read_live_runs(
    ledger: Ledger, read: ReadRun, start_seq: int, stop_seq: int | None = None
) -> Iterator[LiveRun]:
    """Yield the runs of a range in order; each is read only when the walk gets there."""
    seq = max(start_seq, ledger.first_seq)
    while stop_seq is None or seq <= stop_seq:
        run = read(seq)
        if run is None:
            return
        yield live_part(ledger, run, seq, stop_seq)
        seq = int(run.seqs[-1]) + 1
