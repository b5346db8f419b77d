"""The totals of a counter stream."""

from __future__ import annotations

import msgspec

from headwater.errors import api_error
from headwater.stream.store import Store

_REMEMBERED = 100_000
_LARGEST = 10**4000
"""Beyond so many digits Python refuses to read a number back."""


class _Total(msgspec.Struct):
    val: str


class Counters:
    """The newest total on each subject, read back from the stream when it is not remembered."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._totals: dict[bytes, tuple[int, int]] = {}

    def add(self, subject: bytes, increment: int) -> int:
        """Return the total after this increment, which the next sequence will hold."""
        total = sum_of(self.total(subject), increment)
        self._totals.pop(subject, None)
        if len(self._totals) >= _REMEMBERED:
            # The oldest is in the stream by now, where it can be read back.
            del self._totals[next(iter(self._totals))]
        self._totals[subject] = (self._store.ledger.last_seq + 1, total)
        return total

    def total(self, subject: bytes) -> int:
        """Return the total that the newest message of a subject holds, 0 if there is none."""
        index = self._store.ledger.subjects
        seq = index.last.get(subject, 0)
        if seq and subject in index.stale:
            seq = self._store.find_last(subject, seq)
            index.settle(subject, seq)
        if not seq:
            return 0
        remembered = self._totals.get(subject)
        if remembered is not None and remembered[0] == seq:
            return remembered[1]
        message = self._store.read_message(seq)
        try:
            return int(msgspec.json.decode(message.data, type=_Total).val)
        except (ValueError, msgspec.DecodeError):
            raise api_error("message_counter_broken") from None


def sum_of(total: int, increment: int) -> int:
    """Return a total after an increment; raise if it has become too large to be read back."""
    total += increment
    if abs(total) >= _LARGEST:
        raise api_error("message_counter_broken")
    return total


def body_of(total: int) -> bytes:
    """Return a total as the data of a message."""
    return b'{"val":"%d"}' % total
