"""Which messages the limits of a stream remove: pure rules over the ledger and its runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from headwater.model.run import Run
from headwater.model.stream import StreamConfig
from headwater.stream.ledger import Ledger
from headwater.stream.live_runs import ReadRun, read_live_runs
from headwater.stream.retention.removal import Removal
from headwater.stream.subjects import Located

MAX_TIME = (1 << 63) - 1


def is_over(config: StreamConfig, ledger: Ledger) -> bool:
    """Return whether there is more than `max_msgs` or `max_bytes` allow."""
    return 0 < config.max_msgs < ledger.messages or 0 < config.max_bytes < ledger.size


def over_limits(config: StreamConfig, ledger: Ledger, read: ReadRun, stop_seq: int | None = None) -> Removal:
    """Return the oldest messages that exceed `max_msgs` and `max_bytes`, none behind `stop_seq`."""
    removal = Removal()
    excess = ledger.messages - config.max_msgs if config.max_msgs > 0 else 0
    excess_size = ledger.size - config.max_bytes if config.max_bytes > 0 else 0
    if excess <= 0 and excess_size <= 0:
        return removal
    for run, rows in read_live_runs(ledger, read, ledger.first_seq, stop_seq):
        sizes = ledger.overhead.sizes(run)[rows]
        by_count = max(0, excess - len(removal.seqs))
        by_size = 0
        if removal.size < excess_size:
            by_size = int(np.searchsorted(np.cumsum(sizes), excess_size - removal.size)) + 1
        removal.take(run, rows[: max(by_count, by_size)], ledger.overhead)
        if len(removal.seqs) >= excess and removal.size >= excess_size:
            break
    return removal


def over_subject_limit(limit: int, ledger: Ledger, read: ReadRun, subjects: Iterable[bytes]) -> Removal:
    """Return the oldest messages of these subjects beyond `limit` on each."""
    removal = Removal()
    index = ledger.subjects
    excess = {s: count - limit for s in subjects if (count := index.count.get(s, 0)) > limit}
    if index.history is None:
        _take_located(removal, ledger, excess)
        for subject in excess:
            index.note_only(subject)
        _take_oldest(removal, ledger, read, excess)
        return removal
    for subject, count in excess.items():
        for seq, size in index.history[subject][:count]:
            removal.take_known(seq, subject, size)
    return removal


def _take_located(removal: Removal, ledger: Ledger, excess: dict[bytes, int]) -> None:
    """Take the oldest messages of each subject whose sequences are known."""
    index = ledger.subjects
    for subject in [subject for subject in excess if subject in index.located]:
        entries, through = index.located.pop(subject)
        taken = 0
        for seq, size in entries:
            if not excess[subject]:
                break
            taken += 1
            if ledger.is_live(seq):
                removal.take_known(seq, subject, size)
                excess[subject] -= 1
        if taken < len(entries):
            index.located[subject] = Located(entries[taken:], through)
        index.oldest[subject] = entries[taken][0] if taken < len(entries) else through + 1
        if not excess[subject]:
            del excess[subject]


def _take_oldest(removal: Removal, ledger: Ledger, read: ReadRun, excess: dict[bytes, int]) -> None:
    """Take the oldest messages of each subject, in one pass from the front."""
    oldest = ledger.subjects.oldest
    start = min((oldest.get(subject, 0) for subject in excess), default=0)
    passed: dict[bytes, int] = {}
    if not excess:
        return
    for run, live in read_live_runs(ledger, read, start):
        names, seqs = run.subjects, run.seqs
        rows = []
        for row in live.tolist():
            left = excess.get(names[row])
            if left is None:
                continue
            rows.append(row)
            passed[names[row]] = int(seqs[row]) + 1
            excess[names[row]] = left - 1
            if left == 1:
                del excess[names[row]]
                if not excess:
                    break
        removal.take(run, np.array(rows, dtype=np.intp), ledger.overhead)
        if not excess:
            break
    oldest.update(passed)


class TooOld(NamedTuple):
    """Which messages of a run are too old, and of what age those are that stay for now."""

    removal: Removal
    oldest_ns: int | None
    """The time of the oldest one that stays; None if all of those have a time ahead of the clock."""
    ahead_ns: int | None = None
    """The time of the soonest of those."""


def too_old(ledger: Ledger, run: Run, seq: int, horizon_ns: int, now_ns: int = MAX_TIME) -> TooOld:
    """Return what of a run from a sequence on was stored at or before the horizon.

    Messages with a time to live of `never` stay whatever their age.
    """
    removal = Removal()
    rows = ledger.live_rows(run, seq)
    if ledger.expiry.never:
        never, seqs = ledger.expiry.never, run.seqs
        rows = np.array([row for row in rows.tolist() if int(seqs[row]) not in never], dtype=np.intp)
    old = rows[run.ts[rows] <= horizon_ns]
    removal.take(run, old, ledger.overhead)
    stays = run.ts[rows]
    stays = stays[stays > horizon_ns]
    is_ahead = stays > now_ns
    here, ahead = stays[~is_ahead], stays[is_ahead]
    return TooOld(removal, int(here.min()) if len(here) else None, int(ahead.min()) if len(ahead) else None)
