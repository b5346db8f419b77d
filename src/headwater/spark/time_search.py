"""The first sequence that was stored at or after a time, found by asking for few messages."""

from __future__ import annotations

from collections.abc import Callable

FoundMessage = tuple[int, int]
"""The sequence of a message and its time in nanoseconds."""


def first_at(ts: int, first_seq: int, last_seq: int, message_at: Callable[[int], FoundMessage | None]) -> int:
    """Return the least sequence of a message that is not earlier; the one after the last if there is none.

    `message_at` returns the first message at or after a sequence. Times ascend with the sequence, as
    nats-server also assumes for a consumer that starts at a time.
    """
    low, high = first_seq, last_seq + 1
    while low < high:
        middle = (low + high) // 2
        found = message_at(middle)
        if found is None or found[1] >= ts:
            high = middle
        else:
            low = found[0] + 1
    return low
