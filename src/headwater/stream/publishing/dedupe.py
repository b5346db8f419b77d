"""The window in which a message id is remembered."""

from __future__ import annotations

from collections import deque

from headwater.clock import AHEAD_NS


class DedupeWindow:
    """Message ids seen within the last `window_ns`, by the stored timestamps."""

    def __init__(self, window_ns: int) -> None:
        self.window_ns = window_ns
        self._seqs: dict[bytes, int] = {}
        """The sequence of each remembered id."""
        self._order: deque[tuple[int, bytes, int]] = deque()
        """Time, id and sequence, the oldest first."""

    def __len__(self) -> int:
        return len(self._seqs)

    def find(self, message_id: bytes, now_ns: int) -> int | None:
        """Return the sequence stored under this id within the window, if any."""
        self.expire(now_ns)
        return self._seqs.get(message_id)

    def add(self, message_id: bytes, seq: int, ts: int) -> None:
        """Remember an id that was stored at this sequence and time."""
        if self.window_ns <= 0:
            return
        self._seqs[message_id] = seq
        self._order.append((ts, message_id, seq))

    def expire(self, now_ns: int) -> None:
        """Forget what has left the window."""
        horizon = now_ns - self.window_ns
        order = self._order
        if order and order[0][0] > now_ns + AHEAD_NS:
            self._set_back(now_ns)
        while order and order[0][0] <= horizon:
            _, message_id, seq = order.popleft()
            if self._seqs.get(message_id) == seq:
                del self._seqs[message_id]

    def _set_back(self, now_ns: int) -> None:
        """Treat ids that a wrong clock stored in the future as stored now.

        Otherwise they, and all later ids, would be remembered until that time.
        """
        for _ in range(len(self._order)):
            ts, message_id, seq = self._order.popleft()
            self._order.append((now_ns if ts > now_ns + AHEAD_NS else ts, message_id, seq))

    def dump(self) -> list[tuple[int, bytes, int]]:
        """Return what a checkpoint must keep."""
        return list(self._order)

    def restore(self, entries: list[tuple[int, bytes, int]]) -> None:
        """Take back what `dump` returned."""
        for ts, message_id, seq in entries:
            self.add(message_id, seq, ts)
