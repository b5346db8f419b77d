"""Which messages the limits of a stream take out: pure rules over the ledger and the runs it covers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from headwater.model.run import Run
from headwater.model.stream import StreamConfig
from headwater.stream.ledger import Ledger
from headwater.stream.removal import Removal

ReadRun = Callable[[int], Run | None]
"""Returns the first run with a row at or after a sequence."""


def over_limits(config: StreamConfig, ledger: Ledger, read: ReadRun) -> Removal:
    """Return the oldest messages that `max_msgs` and `max_bytes` have no room for."""
    removal = Removal()
    excess = ledger.messages - config.max_msgs if config.max_msgs > 0 else 0
    excess_size = ledger.size - config.max_bytes if config.max_bytes > 0 else 0
    seq = ledger.first_seq
    while len(removal.seqs) < excess or removal.size < excess_size:
        run = read(seq)
        if run is None:
            break
        rows = ledger.live_rows(run, seq)
        sizes = ledger.overhead.sizes(run)[rows]
        by_count = max(0, excess - len(removal.seqs))
        by_size = 0
        if removal.size < excess_size:
            by_size = int(np.searchsorted(np.cumsum(sizes), excess_size - removal.size)) + 1
        removal.take(run, rows[: max(by_count, by_size)], ledger.overhead)
        seq = int(run.seqs[-1]) + 1
    return removal


def over_subject_limit(limit: int, ledger: Ledger, read: ReadRun, subjects: Iterable[bytes]) -> Removal:
    """Return the oldest messages of these subjects beyond `limit` on each."""
    removal = Removal()
    index = ledger.subjects
    for subject in subjects:
        excess = index.count.get(subject, 0) - limit
        if excess <= 0:
            continue
        if index.history is not None:
            for seq, size in index.history[subject][:excess]:
                removal.take_known(seq, subject, size)
        else:
            _take_oldest(removal, ledger, read, subject, excess)
    return removal


def _take_oldest(removal: Removal, ledger: Ledger, read: ReadRun, subject: bytes, count: int) -> None:
    """Take the oldest `count` messages of one subject, looking from the front."""
    seq = max(ledger.first_seq, ledger.subjects.oldest.get(subject, 0))
    while count > 0:
        run = read(seq)
        if run is None:
            return
        names = run.subjects
        rows = [row for row in ledger.live_rows(run, seq).tolist() if names[row] == subject][:count]
        if rows:
            removal.take(run, np.array(rows, dtype=np.intp), ledger.overhead)
            ledger.subjects.oldest[subject] = int(run.seqs[rows[-1]]) + 1
        count -= len(rows)
        seq = int(run.seqs[-1]) + 1


def too_old(ledger: Ledger, read: ReadRun, horizon_ns: int) -> tuple[Removal, int | None]:
    """Return the messages stored at or before the horizon, and the time of the oldest one that stays.

    Messages with a time to live of `never` stay whatever their age.
    """
    removal = Removal()
    seq = ledger.first_seq
    while seq <= ledger.last_seq:
        run = read(seq)
        if run is None:
            break
        rows = ledger.live_rows(run, seq)
        if ledger.expiry.never:
            never = ledger.expiry.never
            seqs = run.seqs
            rows = np.array([row for row in rows.tolist() if int(seqs[row]) not in never], dtype=np.intp)
        old = rows[run.ts[rows] <= horizon_ns]
        if len(old):
            removal.take(run, old, ledger.overhead)
        if len(old) < len(rows):
            return removal, int(run.ts[rows[len(old)]])
        seq = int(run.seqs[-1]) + 1
    return removal, None
