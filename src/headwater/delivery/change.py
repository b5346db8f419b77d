"""A change of a consumer's state as bytes: small to write, and replayed over the earlier state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

import msgspec

from headwater.errors import Error

VERSION = 1


class UnknownChangeError(Error):
    """A stored change has a version that this release does not know, or is not a change at all."""


class Change(msgspec.Struct, array_like=True, frozen=True):
    """A change of a consumer's state; sequences and times are stored as differences."""

    version: int
    whole: bool
    """Whether this is the complete state, not only the changes."""
    delivered: tuple[int, int, int]
    """Consumer sequence, stream sequence, time."""
    ack_floor: tuple[int, int, int]
    next_seq: int
    pending_columns: tuple[list[int], list[int], list[int], list[int]]
    """Stream sequences, consumer sequences, times of delivery, deadlines."""
    settled_steps: list[int]
    counted_columns: tuple[list[int], list[int]]
    uncounted_steps: list[int]

    @classmethod
    def of(
        cls,
        *,
        whole: bool,
        delivered: tuple[int, int, int],
        ack_floor: tuple[int, int, int],
        next_seq: int,
        pending: Mapping[int, tuple[int, int, int]],
        settled: Sequence[int],
        counted: Mapping[int, int],
        uncounted: Sequence[int],
    ) -> Change:
        """Return the change with these values, sequences ascending."""
        return cls(
            VERSION,
            whole,
            delivered,
            ack_floor,
            next_seq,
            (
                _steps(list(pending)),
                _steps([entry[0] for entry in pending.values()]),
                _steps([entry[1] for entry in pending.values()]),
                _steps([entry[2] for entry in pending.values()]),
            ),
            _steps(settled),
            (_steps(list(counted)), list(counted.values())),
            _steps(uncounted),
        )

    @property
    def pending(self) -> dict[int, tuple[int, int, int]]:
        """Return the new or changed entries of pending messages."""
        seqs, *columns = map(accumulate, self.pending_columns)
        return dict(zip(seqs, zip(*columns, strict=True), strict=True))

    @property
    def settled(self) -> list[int]:
        """Return the messages that are no longer pending."""
        return list(accumulate(self.settled_steps))

    @property
    def counted(self) -> dict[int, int]:
        """Return the new or changed counts of redelivered messages."""
        seqs, counts = self.counted_columns
        return dict(zip(accumulate(seqs), counts, strict=True))

    @property
    def uncounted(self) -> list[int]:
        """Return the messages that no longer count as redelivered."""
        return list(accumulate(self.uncounted_steps))


_DECODER = msgspec.msgpack.Decoder(Change)


def encode(change: Change) -> bytes:
    """Return the change as bytes."""
    return msgspec.msgpack.encode(change)


def decode(data: bytes) -> Change:
    """Return the change that the bytes encode."""
    try:
        change = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnknownChangeError(f"cannot decode stored consumer state: {error}") from None
    if change.version != VERSION:
        raise UnknownChangeError(f"stored consumer state has version {change.version}, not {VERSION}")
    return change


def _steps(values: Sequence[int]) -> list[int]:
    """Return the first value and the differences of the others, which mostly take one byte each."""
    return [*values[:1], *(b - a for a, b in pairwise(values))]
