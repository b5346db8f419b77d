"""The messages of a stream that match a consumer's filters, found a run at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from headwater.delivery.tallies import SubjectTally
from headwater.model.message import Message
from headwater.model.run import Run
from headwater.stream.publishing.offered import OfferedRun
from headwater.stream.stream import Stream

WINDOW = 1024
"""How many messages are read at once if all match."""
LONG_RUN = 64
"""A run of this many messages is sent by itself."""
JOINED_BYTES = 256 << 10
"""Joining large messages gains nothing, and the flow control window counts what is sent at once."""
MOST_JOINED = 1024


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows of one run that are live and match, and the sequence from which to continue."""

    run: Run
    rows: Sequence[int]
    """A range if no row between the first and the last is missing."""
    next_seq: int


class Feed:
    """Searches forward from a sequence, within what is durable."""

    def __init__(self, stream: Stream, tally: SubjectTally) -> None:
        self._stream = stream
        self._tally = tally

    def resident(self, start_seq: int, wanted: int = 1) -> Slice | None:
        """Return the next rows if they are in memory, without reading.

        Messages that were published one by one are a run each: runs are joined up to this many rows.
        """
        first = self._resident(start_seq)
        if first is None or len(first.rows) >= wanted or len(first.run) >= LONG_RUN:
            return first
        return self._joined(first, wanted)

    def _resident(self, start_seq: int) -> Slice | None:
        durable_seq = self._stream.reading.durable_seq
        run = self._stream.reading.resident_run(start_seq) if start_seq <= durable_seq else None
        return None if run is None else self._slice(run, start_seq, durable_seq)

    def _joined(self, first: Slice, wanted: int) -> Slice:
        """Return a slice joined with the following ones, as far as they are short and in memory."""
        slices, rows, nbytes, last = [first], len(first.rows), first.run.nbytes, first
        while rows < wanted and nbytes < JOINED_BYTES and len(slices) < MOST_JOINED:
            following = self._resident(last.next_seq)
            if following is None or len(following.run) >= LONG_RUN:
                break
            last = following
            rows += len(last.rows)
            nbytes += last.run.nbytes
            slices.append(last)
        taken = [each for each in slices if each.rows]
        if len(taken) < 2:
            return replace(taken[0] if taken else last, next_seq=last.next_seq)
        parts = [OfferedRun.chosen(each.run, each.rows) for each in taken]
        return Slice(OfferedRun.joined(parts), range(rows), last.next_seq)

    async def read(self, start_seq: int) -> Slice | None:
        """Return the next rows, from memory or disk; None at the end of what is durable."""
        # As of before the read: a file that enters the table meanwhile may be before the run that is found.
        durable_seq = self._stream.reading.durable_seq
        run = await self._stream.reading.run_at(start_seq) if start_seq <= durable_seq else None
        return None if run is None else self._slice(run, start_seq, durable_seq)

    def resident_message(self, seq: int) -> Message | None:
        """Return a live message that is in memory."""
        run = self._stream.reading.resident_run(seq) if self._stream.reading.is_live(seq) else None
        return None if run is None else self._message(run, seq)

    async def message(self, seq: int) -> Message | None:
        """Return a message, from memory or disk; None if it was removed."""
        run = await self._stream.reading.run_at(seq) if self._stream.reading.is_live(seq) else None
        return None if run is None else self._message(run, seq)

    def _message(self, run: Run, seq: int) -> Message | None:
        row = int(run.seqs.searchsorted(seq))
        found = row < len(run.seqs) and int(run.seqs[row]) == seq and self._stream.reading.is_live(seq)
        return run.message(row) if found else None

    def _slice(self, run: Run, start_seq: int, durable_seq: int) -> Slice:
        # With filters the whole run is searched, since few messages may match.
        at_most = None if self._tally.filters else WINDOW
        rows = self._stream.reading.live_rows(run, start_seq, at_most)
        seqs = run.seqs
        reach = len(seqs) if at_most is None else min(int(seqs.searchsorted(start_seq)) + at_most, len(seqs))
        last = int(seqs[reach - 1])
        if last > durable_seq:
            rows = rows[seqs[rows] <= durable_seq]
        if self._tally.filters and len(rows):
            rows = rows[run.subject_mask(self._tally.takes)[rows]]
        return Slice(run, _listed(rows), min(last, durable_seq) + 1)


def _listed(rows: npt.NDArray[np.intp]) -> Sequence[int]:
    """Return rows as a range if they are one."""
    count = len(rows)
    if count and int(rows[-1]) - int(rows[0]) == count - 1:
        return range(int(rows[0]), int(rows[-1]) + 1)
    listed: list[int] = rows.tolist()
    return listed
