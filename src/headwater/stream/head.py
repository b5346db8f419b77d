"""The head of a stream: the batches of the log that are not in the table yet, found by sequence."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import islice, takewhile

from headwater.log.log import Log
from headwater.log.segment import Position
from headwater.model.run import Run

RESIDENT_BYTES = 8 << 20
"""How much of the newest head stays decoded in memory; the rest is read back from the log."""


@dataclass(slots=True, eq=False)
class HeadEntry:
    """One batch of messages: its position, and the run itself while it is resident."""

    first_seq: int
    last_seq: int
    first_ts: int
    last_ts: int
    """The latest time of a message."""
    nbytes: int
    run: Run | None
    position: Position | None
    """Where the log holds it; None until it is written."""

    @classmethod
    def of(cls, run: Run, position: Position | None) -> HeadEntry:
        """Return the entry of a run that has at least one message."""
        seqs, ts = run.seqs, run.ts
        last_ts = int(ts.max()) if len(ts) > 1 else int(ts[0])
        return cls(int(seqs[0]), int(seqs[-1]), int(ts[0]), last_ts, run.nbytes, run, position)


class Head:
    """Entries ascending by sequence; only the newest stay resident."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._both: tuple[list[HeadEntry], list[int]] = ([], [])
        """Entries, and the last sequence of each; replaced together, so that any thread may look."""
        self._resident = 0
        """How many bytes of runs are in memory."""
        self._oldest_resident = 0
        """The index of the first entry whose run is in memory."""
        self._ascends = True
        """Whether no entry is known to be older than one before it."""
        self.messages = 0
        """How many sequences the entries span, removed ones among them."""
        self.nbytes = 0
        """The size of all entries, in memory or not."""

    @property
    def _entries(self) -> list[HeadEntry]:
        return self._both[0]

    @property
    def _lasts(self) -> list[int]:
        return self._both[1]

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def first_seq(self) -> int | None:
        """Return the first sequence in the head, None if it is empty."""
        entries = self._entries
        return entries[0].first_seq if entries else None

    @property
    def first_ts(self) -> int | None:
        """Return the time of the oldest message of the head."""
        entries = self._entries
        return entries[0].first_ts if entries else None

    def spans(self) -> list[tuple[int, int]]:
        """Return the first and the last sequence of each entry."""
        return [(entry.first_seq, entry.last_seq) for entry in self._entries]

    def append(self, entry: HeadEntry, *, resident: bool = True) -> None:
        """Add the newest entry; a replayed one need not stay resident."""
        assert not self._lasts or entry.first_seq > self._lasts[-1]
        previous = self._entries[-1] if self._entries else None
        self._ascends = previous is None or (self._ascends and previous.last_ts <= entry.last_ts)
        self._entries.append(entry)
        self._lasts.append(entry.last_seq)
        self.messages += entry.last_seq - entry.first_seq + 1
        self.nbytes += entry.nbytes
        self._resident += entry.nbytes
        if not resident:
            self._evict_to(0)
        elif self._resident > RESIDENT_BYTES:
            self._evict_to(RESIDENT_BYTES)

    def settle(self) -> None:
        """Evict runs that are written by now and need not stay resident."""
        self._evict_to(RESIDENT_BYTES)

    def _evict_to(self, limit: int) -> None:
        while self._resident > limit and self._oldest_resident < len(self._entries):
            entry = self._entries[self._oldest_resident]
            if entry.position is None:
                return
            entry.run = None
            self._resident -= entry.nbytes
            self._oldest_resident += 1

    def entry_at(self, seq: int) -> HeadEntry | None:
        """Return the first entry that reaches this sequence."""
        # Both lists are replaced together, never cut in place, so that any thread may look.
        entries, lasts = self._both
        index = bisect_left(lasts, seq)
        return entries[index] if index < len(entries) else None

    def nbytes_from(self, seq: int) -> int:
        """Return the bytes of the entries from this sequence on."""
        entries, lasts = self._both
        return sum(entry.nbytes for entry in entries[bisect_left(lasts, seq) :])

    def entry_since(self, ts: int, start_seq: int = 0) -> HeadEntry | None:
        """Return the first entry from a sequence on whose newest message is not older than this time."""
        entries, lasts = self._both
        low = bisect_left(lasts, start_seq)
        if not self._ascends:
            return next((entry for entry in islice(entries, low, None) if entry.last_ts >= ts), None)
        index = bisect_left(entries, ts, lo=low, key=lambda entry: entry.last_ts)
        return entries[index] if index < len(entries) else None

    def load(self, entry: HeadEntry) -> Run:
        """Return the run of an entry, from the log when it is not resident; safe on any thread."""
        run = entry.run
        if run is not None:
            return run
        assert entry.position is not None
        return self._log.read(entry.position)

    def below(self, segment: int) -> list[HeadEntry]:
        """Return the entries that are in segments below this one."""
        return list(
            takewhile(lambda e: e.position is not None and e.position.segment < segment, self._entries)
        )

    def release_through(self, last_seq: int) -> None:
        """Forget the entries up to this sequence: the table has them."""
        count = bisect_right(self._lasts, last_seq)
        if not count:
            return
        for entry in self._entries[:count]:
            self.messages -= entry.last_seq - entry.first_seq + 1
            self.nbytes -= entry.nbytes
            if entry.run is not None:
                self._resident -= entry.nbytes
        self._both = (self._entries[count:], self._lasts[count:])
        self._oldest_resident = max(0, self._oldest_resident - count)
