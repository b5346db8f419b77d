"""Tests of stan.start."""

from __future__ import annotations

from pathlib import Path

import pytest

from doors import opened_domain, services
from headwater.model.stream import StreamConfig, StreamState
from headwater.stan.start import last_sent, last_sent_at
from headwater.wire.stan_messages import (
    FIRST,
    LAST_RECEIVED,
    NEW_ONLY,
    SEQUENCE,
    TIME_DELTA,
    SubscriptionRequest,
)

HOUR = 3_600_000_000_000


def state(first_seq: int, last_seq: int) -> StreamState:
    return StreamState(messages=last_seq + 1 - first_seq, first_seq=first_seq, last_seq=last_seq)


@pytest.mark.parametrize(
    ("position", "start_seq", "expected"),
    [
        (NEW_ONLY, 0, 9),
        (LAST_RECEIVED, 0, 8),
        (FIRST, 0, 4),
        (SEQUENCE, 0, 4),
        (SEQUENCE, 3, 4),
        (SEQUENCE, 7, 6),
        (SEQUENCE, 9, 8),
        (SEQUENCE, 10, 9),
        (SEQUENCE, 2**64 - 1, 9),
    ],
)
def test_a_position_is_found_in_a_channel_that_has_lost_its_first(
    position: int, start_seq: int, expected: int
) -> None:
    assert last_sent(state(5, 9), position, start_seq) == expected


@pytest.mark.parametrize("position", [NEW_ONLY, LAST_RECEIVED, FIRST, SEQUENCE, TIME_DELTA])
def test_an_empty_channel_begins_at_its_end(position: int) -> None:
    assert last_sent(StreamState(), position, 1) == 0
    assert last_sent(state(10, 9), position, 1) == 9


async def test_a_time_is_found_among_the_messages(tmp_path: Path) -> None:
    async with services(tmp_path) as shared, opened_domain(tmp_path, shared) as domain:
        stream, _ = await domain.create_stream(StreamConfig(name="foo", subjects=("foo",)))
        request = SubscriptionRequest(startPosition=TIME_DELTA, startTimeDelta=HOUR)
        assert await last_sent_at(stream, request, shared.clock.now_ns()) == 0
        stream.publishing.offer([(b"foo", b"", b"", b"x")] * 3)
        await stream.publishing.settled()
        last_ts = (await stream.reading.state()).last_ts
        assert await last_sent_at(stream, request, last_ts) == 0
        assert await last_sent_at(stream, request, last_ts + HOUR) == 2
        assert await last_sent_at(stream, request, last_ts + HOUR + 1) == 3
