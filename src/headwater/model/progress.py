"""How an upstream comes along, beyond what nats-server shows of one."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from headwater.model.gaps import Gaps


class Phase(StrEnum):
    """What an upstream is at."""

    STARTING = "starting"
    """Its origin was not heard of yet."""
    CATCHING_UP = "catching up"
    LIVE = "live"
    """It has all that the origin holds, but for the last seconds."""
    RETRYING = "retrying"
    """The last attempt failed; the next one comes."""
    STALLED = "stalled"
    """There is something to copy, and nothing was for a while."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How an upstream comes along; times in nanoseconds, 0 for never; sequences are the origin's."""

    phase: Phase = Phase.STARTING
    is_known: bool = True
    """Whether the last look at the origin succeeded; if not, nobody knows how far behind the copy is."""
    seq: int = 0
    """The sequence up to which everything wanted was copied."""
    origin_last_seq: int = 0
    began_seq: int = 0
    """Where it stood when it last began to catch up."""
    msgs_per_s: float = 0.0
    bytes_per_s: float = 0.0
    behind_s: float | None = 0.0
    """The age of the oldest message that was not copied yet; None where it is not known."""
    caught_up_in_s: float | None = None
    """None where nobody can tell, such as when the origin grows as fast."""
    copied_msgs: int = 0
    """Since the engine started, as the bytes."""
    copied_bytes: int = 0
    committed_ns: int = 0
    seen_ns: int = 0
    failures: int = 0
    failing_ns: int = 0
    """Since when there is an error."""
    next_try_ns: int = 0
    gaps: Gaps = Gaps()

    @property
    def done(self) -> float | None:
        """Return which part of the catch-up under way is done, from 0 to 1; None where it is not known."""
        if not self.is_known:
            return None
        total = self.origin_last_seq - self.began_seq
        return 1.0 if total <= 0 else min(max((self.seq - self.began_seq) / total, 0.0), 1.0)
