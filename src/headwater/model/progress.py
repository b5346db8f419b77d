"""The progress of an upstream, which nats-server does not show."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from headwater.model.gaps import Gaps


class Phase(StrEnum):
    """The phase of an upstream."""

    STARTING = "starting"
    """Its origin has not answered yet."""
    CATCHING_UP = "catching up"
    LIVE = "live"
    """It has everything of the origin, except for the last seconds."""
    RETRYING = "retrying"
    """The last attempt failed; there will be another."""
    STALLED = "stalled"
    """There is something to copy, and nothing was copied for a while."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of an upstream; times in nanoseconds, 0 for never; sequences are the origin's."""

    phase: Phase = Phase.STARTING
    waiting: str = ""
    """What it waits for before anything is copied; empty if nothing is known to be missing."""
    is_known: bool = True
    """Whether the last check of the origin succeeded; if not, the lag is unknown."""
    seq: int = 0
    """The sequence up to which everything wanted was copied."""
    origin_last_seq: int = 0
    began_seq: int = 0
    """The cursor's sequence when it last began to catch up."""
    msgs_per_s: float = 0.0
    bytes_per_s: float = 0.0
    behind_s: float | None = 0.0
    """The age of the oldest message that is not copied yet; None if unknown."""
    caught_up_in_s: float | None = None
    """None if unknown, such as when the origin grows as fast."""
    copied_msgs: int = 0
    """Since the engine started, like the bytes."""
    copied_bytes: int = 0
    committed_ns: int = 0
    seen_ns: int = 0
    failures: int = 0
    failing_ns: int = 0
    """Since when there is an error."""
    next_try_ns: int = 0
    gaps: Gaps = Gaps()
    is_piped: bool = False
    """Whether its messages pass through a pipeline."""
    dead_letters: int = 0
    """Messages that the pipeline failed on, since the engine started."""

    @property
    def done(self) -> float | None:
        """Return which fraction of the present catch-up is done, from 0 to 1; None if unknown."""
        if not self.is_known:
            return None
        total = self.origin_last_seq - self.began_seq
        return 1.0 if total <= 0 else min(max((self.seq - self.began_seq) / total, 0.0), 1.0)
