"""The window in which a message id is remembered."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from headwater.clock import AHEAD_NS
from headwater.model.message_ids import MessageIds

BLOCK_IDS = 1 << 16
"""The most ids of a block."""
MOST_BLOCKS = 1024
"""With more blocks a search would be slow: the ids of further ones are remembered one by one."""

Entry = tuple[int, bytes, int]
"""Time, id and sequence."""


class IdBlock(NamedTuple):
    """Ids that were stored at the same time; it never changes, so threads may read it."""

    ts: int
    base_seq: int
    rows: Mapping[bytes, int]
    """What to add to the base for the sequence of each id."""

    def entries(self) -> Iterator[Entry]:
        """Yield each id with its time and sequence."""
        return ((self.ts, message_id, self.base_seq + row) for message_id, row in self.rows.items())


class FileIds(NamedTuple):
    """The ids of a file that a stream is about to adopt."""

    ids: MessageIds
    rows: Sequence[Mapping[bytes, int]]
    """The row of each id, in tables of the size of a block."""

    @classmethod
    def of(cls, ids: Sequence[bytes]) -> FileIds:
        """Return the ids of a file without a time."""
        return cls(MessageIds.of(ids), row_blocks(ids))

    @classmethod
    def of_last(cls, rows: int, message_id: bytes) -> FileIds:
        """Return the id of the last message alone, where there is no window."""
        return cls(MessageIds.of_last(rows, message_id), ())

    def since(self, ts: int) -> FileIds:
        """Return the ids, remembered from a time on."""
        return self._replace(ids=msgspec.structs.replace(self.ids, ts=ts))

    def has(self, message_id: bytes) -> bool:
        """Return whether a message has this id."""
        return any(message_id in table for table in self.rows)


def row_blocks(ids: Iterable[bytes]) -> list[dict[bytes, int]]:
    """Return the row of each id, in tables of the size of a block; empty ids are none."""
    tables: list[dict[bytes, int]] = [{}]
    for row, message_id in enumerate(ids):
        if message_id:
            if len(tables[-1]) >= BLOCK_IDS:
                tables.append({})
            tables[-1][message_id] = row
    return tables if tables[-1] else []


class DedupeWindow:
    """Message ids seen within the last `window_ns`, by the stored timestamps."""

    def __init__(self, window_ns: int) -> None:
        self.window_ns = window_ns
        self._seqs: dict[bytes, int] = {}
        """The sequence of each id that was remembered alone."""
        self._order: deque[Entry] = deque()
        """The same, the oldest first."""
        self._blocks: deque[IdBlock] = deque()
        """The ids of bulk writes, the oldest first."""
        self.added = 0
        """How many ids were remembered alone, ever."""

    def __len__(self) -> int:
        return len(self._seqs) + sum(len(block.rows) for block in self._blocks)

    def find(self, message_id: bytes, now_ns: int) -> int | None:
        """Return the sequence stored under this id within the window, if any."""
        self.expire(now_ns)
        seq = self._seqs.get(message_id)
        return self._in_blocks(message_id, now_ns) if seq is None and self._blocks else seq

    def known(self, now_ns: int) -> Callable[[bytes], bool]:
        """Return what says whether an id is remembered; nothing changes, so any thread may ask it."""
        seqs = self._seqs
        tables = [block.rows for block in self._blocks if block.ts > now_ns - self.window_ns]
        return lambda message_id: message_id in seqs or any(message_id in table for table in tables)

    def _in_blocks(self, message_id: bytes, now_ns: int) -> int | None:
        for block in self._blocks:
            row = block.rows.get(message_id)
            if row is not None and block.ts > now_ns - self.window_ns:
                return block.base_seq + row
        return None

    def add(self, message_id: bytes, seq: int, ts: int) -> None:
        """Remember an id that was stored at this sequence and time."""
        if self.window_ns <= 0:
            return
        self.added += 1
        self._seqs[message_id] = seq
        self._order.append((ts, message_id, seq))

    def add_block(self, block: IdBlock) -> None:
        """Remember the ids of a bulk write; none of them may be remembered already."""
        if self.window_ns <= 0:
            return
        self.expire(block.ts)
        if len(self._blocks) < MOST_BLOCKS:
            self._blocks.append(block)
            return
        for ts, message_id, seq in block.entries():
            self.add(message_id, seq, ts)

    def added_since(self, count: int) -> list[bytes]:
        """Return the ids that were remembered alone since `added` was this number."""
        return [entry[1] for entry in islice(reversed(self._order), self.added - count)]

    def expire(self, now_ns: int) -> None:
        """Forget what has left the window; of blocks at most one, since that takes time."""
        horizon = now_ns - self.window_ns
        order, blocks = self._order, self._blocks
        if (order and order[0][0] > now_ns + AHEAD_NS) or (blocks and blocks[0].ts > now_ns + AHEAD_NS):
            self._set_back(now_ns)
        if blocks and blocks[0].ts <= horizon:
            blocks.popleft()
        while order and order[0][0] <= horizon:
            _, message_id, seq = order.popleft()
            if self._seqs.get(message_id) == seq:
                del self._seqs[message_id]

    def _set_back(self, now_ns: int) -> None:
        """Treat ids that a wrong clock stored in the future as stored now.

        Otherwise they, and all later ids, would be remembered until that time.
        """
        ahead_ns = now_ns + AHEAD_NS
        for _ in range(len(self._order)):
            ts, message_id, seq = self._order.popleft()
            self._order.append((now_ns if ts > ahead_ns else ts, message_id, seq))
        for _ in range(len(self._blocks)):
            block = self._blocks.popleft()
            self._blocks.append(block._replace(ts=now_ns) if block.ts > ahead_ns else block)

    def dump(self) -> list[Entry]:
        """Return the ids that a checkpoint must keep, except those in blocks."""
        return list(self._order)

    def dump_blocks(self) -> list[IdBlock]:
        """Return the blocks that a checkpoint must keep."""
        return list(self._blocks)

    def restore(self, entries: list[Entry]) -> None:
        """Take back ids with their times, the oldest first."""
        for ts, message_id, seq in entries:
            self.add(message_id, seq, ts)


def with_blocks(entries: list[Entry], blocks: list[IdBlock]) -> list[Entry]:
    """Return all ids of a dump as a checkpoint stores them, the oldest first."""
    if not blocks:
        return entries
    inside = [entry for block in blocks for entry in block.entries()]
    return sorted(entries + inside, key=lambda entry: entry[0])
