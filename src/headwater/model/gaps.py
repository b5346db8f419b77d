"""Gaps: ranges of an origin's sequences that were removed before the target could copy them.

Gaps of version 1 are a msgpack array. From version 2 on a byte with the version precedes it.
"""

from __future__ import annotations

import msgspec

from headwater.errors import NewerFormatError

VERSION = 2
_ARRAYS = range(0x90, 0xA0)
"""The first byte of gaps of version 1."""
RECENT = 32
"""How many gaps are listed one by one; older ones only count in the sums."""

RETENTION = "retention"
"""The origin has limits: they, or a purge, removed the messages."""
PURGE = "purge"
"""The origin has no limits: a client purged or deleted the messages."""
RE_CREATED = "re-created"
"""The origin was deleted with messages that were not copied, and re-created."""
_OLD_REASONS = {"made anew": RE_CREATED}
"""Reasons as release 0.1.0 stored them."""


class Gap(msgspec.Struct, frozen=True, array_like=True):
    """A range of the origin's sequences, both ends included."""

    first_seq: int
    last_seq: int
    noted_ns: int
    reason: str

    @property
    def sequences(self) -> int:
        """Return how many sequences it spans."""
        return self.last_seq - self.first_seq + 1

    def is_continued_by(self, other: Gap) -> bool:
        """Return whether another gap directly continues this one."""
        return other.first_seq == self.last_seq + 1 and other.reason == self.reason != RE_CREATED


class Gaps(msgspec.Struct, frozen=True, array_like=True):
    """The gaps of one upstream, and how often its origin was re-created."""

    recent: tuple[Gap, ...] = ()
    count: int = 0
    sequences: int = 0
    restarts: int = 0
    """How often a source began again because its origin was another stream."""
    restarted_ns: int = 0

    def with_gap(self, gap: Gap) -> Gaps:
        """Return the gaps with one more; one that continues the last one extends it."""
        sequences = self.sequences + gap.sequences
        if self.recent and self.recent[-1].is_continued_by(gap):
            longer = msgspec.structs.replace(gap, first_seq=self.recent[-1].first_seq)
            return msgspec.structs.replace(self, recent=(*self.recent[:-1], longer), sequences=sequences)
        recent = (*self.recent, gap)[-RECENT:]
        return msgspec.structs.replace(self, recent=recent, count=self.count + 1, sequences=sequences)

    def restarted(self, now_ns: int) -> Gaps:
        """Return the gaps of a source that begins at the start of another origin."""
        return msgspec.structs.replace(self, restarts=self.restarts + 1, restarted_ns=now_ns)

    def encode(self) -> bytes:
        """Return the gaps as bytes for the target's log."""
        return bytes([VERSION]) + msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, encoded: bytes) -> Gaps:
        """Return the gaps that these bytes encode; no bytes are no gaps. Refuse those of a newer release."""
        if not encoded:
            return cls()
        if encoded[0] in _ARRAYS:
            return _with_current_reasons(msgspec.msgpack.decode(encoded, type=cls))
        if encoded[0] != VERSION:
            raise NewerFormatError("the record of gaps", encoded[0], VERSION)
        return _with_current_reasons(msgspec.msgpack.decode(memoryview(encoded)[1:], type=cls))


def _with_current_reasons(gaps: Gaps) -> Gaps:
    """Return gaps whose reasons are those of this release."""
    if not any(gap.reason in _OLD_REASONS for gap in gaps.recent):
        return gaps
    recent = (
        msgspec.structs.replace(gap, reason=_OLD_REASONS.get(gap.reason, gap.reason)) for gap in gaps.recent
    )
    return msgspec.structs.replace(gaps, recent=tuple(recent))


def gaps_name(upstream: str) -> str:
    """Return the name under which a target stores an upstream's gaps, next to its cursor."""
    return f"{upstream}\ngaps"
