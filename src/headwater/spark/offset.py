"""The offset of a query that follows a stream: which stream it is, and the last sequence that was read.

A stream that is deleted and re-created begins again at 1, so a sequence alone does not say what was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.errors import Error


class DataLossError(Error):
    """Messages that a query has not read are gone; the text says why, and what to do."""


@dataclass(frozen=True)
class StreamExtent:
    """What a stream's info says about its messages."""

    created: str
    """When the stream was created, as the server writes it."""
    first_seq: int
    last_seq: int
    average_bytes: float
    """Of a message; at least 1."""

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> StreamExtent:
        """Return the extent in an answer to STREAM.INFO."""
        state = info["state"]
        average = int(state.get("bytes", 0)) / max(int(state.get("messages", 0)), 1)
        first_seq = max(int(state["first_seq"]), 1)
        return cls(str(info.get("created", "")), first_seq, int(state["last_seq"]), max(average, 1.0))


@dataclass(frozen=True)
class FollowOffset:
    """The last sequence that was read, and when its stream was created; empty in older checkpoints."""

    seq: int
    created: str = ""

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> FollowOffset:
        """Return the offset that Spark passes."""
        return cls(int(value["seq"]), str(value.get("created", "")))

    def value(self) -> dict[str, Any]:
        """Return the offset for Spark's checkpoint."""
        return {"seq": self.seq, "created": self.created}


def next_seq(start: FollowOffset, extent: StreamExtent, stream: str, *, may_skip: bool) -> int:
    """Return the sequence at which the next micro-batch begins.

    Raise if messages after the offset are gone; with `may_skip`, begin at the first message that is there.
    """
    is_other = start.created != extent.created if start.created else extent.last_seq < start.seq
    if is_other:
        problem = f"was deleted and re-created after message {start.seq} was read"
        _require(may_skip, stream, problem, "start with a new checkpoint")
        return extent.first_seq
    if extent.first_seq > start.seq + 1:
        problem = f"no longer has messages {start.seq + 1} to {extent.first_seq - 1}, which were not read"
        _require(may_skip, stream, problem, "keep messages for longer, or read more often")
        return extent.first_seq
    return start.seq + 1


def batch_bounds(
    start: FollowOffset, end: FollowOffset, extent: StreamExtent, stream: str, *, may_skip: bool
) -> tuple[int, int]:
    """Return the first and last sequence of a planned micro-batch; the last is smaller if it is empty.

    A micro-batch is planned again after a restart. It must then have the same messages.
    """
    if end.created and end.created != extent.created:
        _require(
            may_skip, stream, "was deleted and re-created while it was read", "start with a new checkpoint"
        )
        return 1, 0
    first = start.seq + 1 if start.created in ("", end.created) and start.seq <= end.seq else 1
    if first <= end.seq and extent.first_seq > first:
        problem = (
            f"no longer has messages {first} to {min(extent.first_seq - 1, end.seq)}, which were not read"
        )
        _require(may_skip, stream, problem, "keep messages for longer, or read more often")
    return first, end.seq


def _require(may_skip: bool, stream: str, problem: str, advice: str) -> None:
    if not may_skip:
        raise DataLossError(
            f"stream {stream!r} {problem}: {advice}, or set option failOnDataLoss to false to go on "
            "with the messages that are there"
        )
