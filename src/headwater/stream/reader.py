"""Reads the messages of a stream: single ones, the newest of subjects, ranges, counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from headwater.model.message import Message
from headwater.model.run import Run
from headwater.stream.selection import Selection, slices
from headwater.stream.store import Store

SCAN_MESSAGES = 4096
"""The most messages that a scan yields at once."""


class Reader:
    """Reads live messages of one stream through its ledger and its view."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def message(self, seq: int) -> Message | None:
        """Return the message at a sequence."""
        while self._store.ledger.is_live(seq):
            run = await self._store.view.run_at(seq)
            row = int(run.seqs.searchsorted(seq)) if run is not None else 0
            if run is not None and row < len(run.seqs) and run.seqs[row] == seq:
                return run.message(row)
            if self._store.adoptions.holding(seq) is not None:
                await self._store.adoptions.ended(seq)
                continue
            assert not self._store.ledger.is_live(seq), f"live sequence {seq} is not stored"
        return None

    async def last(self, pattern: str, up_to_seq: int | None = None) -> Message | None:
        """Return the newest message whose subject matches."""
        ledger = self._store.ledger
        if up_to_seq is not None and up_to_seq < ledger.last_seq:
            seqs = await self._last_before((pattern or ">",), up_to_seq)
            return await self.message(max(seqs)) if seqs else None
        newest, bounds = await ledger.subjects.newest(pattern or ">")
        for bound, subject in sorted(bounds, reverse=True):
            if bound > newest:
                newest = max(newest, await self.last_on(subject))
        return await self.message(newest) if newest else None

    async def last_on(self, subject: bytes) -> int:
        """Return the newest sequence of a subject, 0 if the stream holds none."""
        while True:
            index = self._store.ledger.subjects
            if subject not in index.stale:
                return index.last.get(subject, 0)
            newest = await self._store.on_thread(self._store.find_last, subject, index.last[subject])
            if subject in self._store.ledger.subjects.stale and self._store.ledger.is_live(newest):
                self._store.ledger.subjects.settle(subject, newest)

    async def last_seqs(self, patterns: Sequence[str], up_to_seq: int | None, limit: int) -> list[int] | None:
        """Return the newest sequence of every matching subject, ascending; None beyond `limit` subjects."""
        ledger = self._store.ledger
        if up_to_seq is not None and up_to_seq < ledger.last_seq:
            seqs = await self._last_before(patterns, up_to_seq)
        else:
            subjects = await ledger.subjects.matched(*patterns, limit=limit)
            if len(subjects) > limit:
                return None
            seqs = [seq for some in slices(list(subjects)) for seq in await self._newest(some)]
        return sorted(seqs) if len(seqs) <= limit else None

    async def _newest(self, subjects: Sequence[bytes]) -> list[int]:
        """Return the newest sequence of each subject that the stream holds; yields to other tasks first."""
        await asyncio.sleep(0)
        return [seq for subject in subjects if (seq := await self.last_on(subject))]

    async def _last_before(self, patterns: Sequence[str], up_to_seq: int) -> list[int]:
        """Return the newest sequence of every matching subject among those up to a sequence."""
        newest: dict[bytes, int] = {}
        async for run, rows in self._runs(self._store.ledger.first_seq, patterns, up_to_seq):
            subjects, seqs = run.subjects, run.seqs
            newest.update((subjects[row], int(seqs[row])) for row in rows)
        return list(newest.values())

    async def next(self, pattern: str, start_seq: int) -> Message | None:
        """Return the oldest message from a sequence on whose subject matches."""
        if pattern and pattern != ">" and not await self._store.ledger.subjects.matched(pattern):
            return None
        async for run, rows in self._runs(start_seq, (pattern,) if pattern else ()):
            if rows:
                return run.message(rows[0])
        return None

    async def seq_at(self, ts: int) -> int:
        """Return the first live sequence with a time not before `ts`; one past the last if there is none."""
        start_seq = self._store.ledger.first_seq
        while (found := await self._store.view.seq_at(ts, start_seq)) is not None:
            ledger = self._store.ledger
            start_seq = ledger.next_live(found)
            if start_seq == found or start_seq > ledger.last_seq:
                return start_seq
        return self._store.ledger.last_seq + 1

    async def scan(
        self, start_seq: int, patterns: Sequence[str] = (), stop_seq: int | None = None
    ) -> AsyncIterator[list[Message]]:
        """Yield live matching messages in order, many at a time."""
        async for run, rows in self._runs(start_seq, patterns, stop_seq):
            for start in range(0, len(rows), SCAN_MESSAGES):
                yield [run.message(row) for row in rows[start : start + SCAN_MESSAGES]]

    async def pending(self, start_seq: int, patterns: Sequence[str] = (), stop_seq: int | None = None) -> int:
        """Return how many live messages match from a sequence on, up to another if one is given."""
        ledger = self._store.ledger
        stop_seq = ledger.last_seq if stop_seq is None else min(stop_seq, ledger.last_seq)
        if not patterns or ">" in patterns:
            return ledger.live_between(start_seq, stop_seq)
        if start_seq <= ledger.first_seq:
            subjects = await ledger.subjects.matched(*patterns)
            found = await ledger.subjects.count_on(subjects)
            # In one turn with the counts, which include what was stored while the subjects were looked for.
            last_seq = ledger.last_seq
            if stop_seq == last_seq:
                return found
            return found - await self._count_on(subjects, stop_seq + 1, last_seq)
        return sum([len(rows) async for _, rows in self._runs(start_seq, patterns, stop_seq)])

    async def _count_on(self, subjects: set[bytes], start_seq: int, stop_seq: int) -> int:
        """Return how many live messages between two sequences are on these subjects."""
        counted = 0
        async for run, rows in self._runs(start_seq, (), stop_seq):
            found = run.subjects
            counted += sum(found[row] in subjects for row in rows)
        return counted

    async def _runs(
        self, start_seq: int, patterns: Sequence[str] = (), stop_seq: int | None = None
    ) -> AsyncIterator[tuple[Run, list[int]]]:
        """Yield runs with their rows that are alive, match, and are between the sequences."""
        ledger = self._store.ledger
        selection = Selection(patterns) if patterns and ">" not in patterns else None
        stop_seq = ledger.last_seq if stop_seq is None else min(stop_seq, ledger.last_seq)
        async for run, live in self._store.live_runs(start_seq, stop_seq):
            rows = live.tolist()
            if selection is not None:
                subjects = run.subjects
                wanted = await selection.among({subjects[row] for row in rows})
                rows = [row for row in rows if subjects[row] in wanted]
            yield run, rows
