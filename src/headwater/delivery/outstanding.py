"""A consumer's delivered, unsettled messages: by sequence, by deadline, and queued for redelivery."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat, takewhile
from typing import NamedTuple

from headwater.delivery.deadlines import Deadlines

QUEUED = 0
"""The deadline of a message that is queued for redelivery."""
NEVER = 2**63 - 1
"""The deadline of a message that never becomes due by itself."""

Entry = tuple[int, int, int]


class PendingDelivery(NamedTuple):
    """One message: the consumer sequence of its first delivery, its last delivery time, its deadline."""

    consumer_seq: int
    delivered_ns: int
    deadline_ns: int


class Delivery(NamedTuple):
    """The content of the ack subject of one delivery."""

    consumer_seq: int
    delivered_count: int


class Unsettled(NamedTuple):
    """A message that left the consumer without an ack."""

    stream_seq: int
    consumer_seq: int
    delivered_count: int


class Outstanding:
    """Unsettled messages; each is queued, or never due, or covered by an entry of the deadlines.

    First deliveries ascend, so the lowest is at the front of `_order`, where settled ones are skipped. (The
    front of a dict that loses its first keys one by one is slow to find.)
    """

    __slots__ = ("_deadlines", "_order", "_queue", "entries")

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        """By stream sequence: consumer sequence, last delivery time, deadline."""
        self._order: deque[int] = deque()
        """All sequences ascending, settled ones among them."""
        self._queue: OrderedDict[int, None] = OrderedDict()
        """Messages due for redelivery, in that order; a dict for quick removal."""
        self._deadlines = Deadlines()

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, seq: int) -> bool:
        return seq in self.entries

    @property
    def num_queued(self) -> int:
        """Return how many are queued for redelivery."""
        return len(self._queue)

    def add_run(self, seqs: Sequence[int], first_consumer_seq: int, now: int, deadline: int) -> None:
        """Add messages above all others that were delivered just now."""
        consumer_seqs = range(first_consumer_seq, first_consumer_seq + len(seqs))
        rows = zip(consumer_seqs, repeat(now), repeat(deadline), strict=False)
        self.entries.update(zip(seqs, rows, strict=False))
        self._order.extend(seqs)
        if deadline != NEVER:
            self._deadlines.add(deadline, seqs[0], seqs[-1])

    def arm(self, seq: int, delivered_ns: int, deadline: int) -> None:
        """Remove a message from the queue and wait for its ack until the deadline."""
        self._queue.pop(seq, None)
        self.entries[seq] = (self.entries[seq][0], delivered_ns, deadline)
        if deadline != NEVER:
            self._deadlines.add(deadline, seq, seq)

    def postpone(self, seq: int, now: int, deadline: int) -> None:
        """Extend the deadline of a message in progress; a queued one stays queued."""
        consumer_seq, _, known = self.entries[seq]
        # No new entry in the deadlines: the old one leads here, and finds that the message is due later.
        later = known if known == QUEUED else max(known, deadline)
        self.entries[seq] = (consumer_seq, now, later)

    def enqueue(self, seq: int) -> None:
        """Put a message at the end of the queue."""
        consumer_seq, delivered_ns, _ = self.entries[seq]
        self.entries[seq] = (consumer_seq, delivered_ns, QUEUED)
        self._queue[seq] = None

    def first_queued(self) -> int | None:
        """Return the message at the front of the queue, or None."""
        return next(iter(self._queue), None)

    def pop(self, seq: int) -> Entry | None:
        """Remove a message and return its entry, or None if it is not pending."""
        entry = self.entries.pop(seq, None)
        if entry is None:
            return None
        if entry[2] == QUEUED:
            del self._queue[seq]
        if not self.entries:
            self._order.clear()
            self._deadlines.clear()
        return entry

    def pop_each(self, seqs: Sequence[int]) -> list[int]:
        """Remove messages while none is queued; return those that were pending."""
        assert not self._queue
        pop = self.entries.pop
        popped = [seq for seq in seqs if pop(seq, None) is not None]
        if not self.entries:
            self._order.clear()
            self._deadlines.clear()
        return popped

    def lowest(self) -> int | None:
        """Return the lowest sequence, or None."""
        order, entries = self._order, self.entries
        while order and order[0] not in entries:
            order.popleft()
        return order[0] if order else None

    def below(self, seq: int) -> list[int]:
        """Return the sequences below this one, ascending."""
        return [s for s in takewhile(lambda s: s < seq, self._order) if s in self.entries]

    def next_deadline(self) -> int | None:
        """Return when something may be due, or None."""
        lowest = self.lowest()
        if lowest is None or len(self.entries) == len(self._queue):
            return None
        return self._deadlines.next(lowest)

    def due(self, now: int) -> list[int]:
        """Return what is due by now, ascending; the caller queues or removes all of it."""
        due: list[int] = []
        later: list[tuple[int, int]] = []
        for seq in self._candidates(now):
            deadline = self.entries[seq][2]
            if QUEUED < deadline <= now:
                due.append(seq)
            elif QUEUED < deadline < NEVER:
                later.append((deadline, seq))
        for deadline, seq in sorted(later):
            self._deadlines.add(deadline, seq, seq)
        return sorted(due)

    def clear(self) -> None:
        """Remove everything."""
        self.load({})

    def load(self, entries: Mapping[int, Entry]) -> None:
        """Set the messages, replacing all others; the queue has the order of their sequences."""
        self.entries = dict(sorted(entries.items()))
        self._order = deque(self.entries)
        self._queue = OrderedDict.fromkeys(s for s, entry in self.entries.items() if entry[2] == QUEUED)
        self._deadlines.clear()
        waiting = [(e[2], s) for s, e in self.entries.items() if QUEUED < e[2] < NEVER]
        for deadline, seq in sorted(waiting):
            self._deadlines.add(deadline, seq, seq)

    def set_back(self, now: int) -> None:
        """Set deliveries that seem later than now to now."""
        if all(delivered_ns <= now for _, delivered_ns, _ in self.entries.values()):
            return
        self.load({seq: _set_back(entry, now) for seq, entry in self.entries.items()})

    def _candidates(self, now: int) -> Iterable[int]:
        """Return the messages that may be due by now, found the shorter of two ways."""
        lowest = self.lowest()
        if lowest is None:
            return ()
        runs = self._deadlines.take(now, lowest)
        if sum(last - first + 1 for first, last in runs) > len(self.entries):
            low, high = min(first for first, _ in runs), max(last for _, last in runs)
            return [seq for seq in self.entries if low <= seq <= high]
        return {seq for first, last in runs for seq in range(first, last + 1) if seq in self.entries}


def _set_back(entry: Entry, now: int) -> Entry:
    consumer_seq, delivered_ns, deadline = entry
    if delivered_ns <= now:
        return entry
    if deadline not in (QUEUED, NEVER):
        deadline = now + max(deadline - delivered_ns, 0)
    return consumer_seq, now, deadline
