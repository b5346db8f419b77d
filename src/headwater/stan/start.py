"""The start position of a new subscription."""

from __future__ import annotations

from typing import Any

from headwater.model.stream import StreamState
from headwater.stream.stream import Stream
from headwater.wire.stan_messages import FIRST, LAST_RECEIVED, NEW_ONLY, SEQUENCE, TIME_DELTA


async def last_sent_at(stream: Stream, request: Any, now_ns: int) -> int:
    """Return the sequence after which a subscription starts."""
    state = await stream.reading.state()
    if request.startPosition == TIME_DELTA and state.messages:
        found = await stream.reading.seq_at(now_ns - request.startTimeDelta)
        return min(found - 1, state.last_seq)
    return last_sent(state, request.startPosition, request.startSequence)


def last_sent(state: StreamState, position: int, start_seq: int) -> int:
    """Return that sequence for every start position except a time."""
    first, last = min(state.first_seq, state.last_seq + 1), state.last_seq
    before_first = max(first - 1, 0)
    if position == FIRST:
        return before_first
    if position == LAST_RECEIVED:
        return max(last - 1, before_first)
    if position == SEQUENCE and start_seq <= last:
        return max(start_seq - 1, before_first)
    assert position in (NEW_ONLY, SEQUENCE, TIME_DELTA)
    return last
