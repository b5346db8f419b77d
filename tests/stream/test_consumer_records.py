"""Changes of consumers are recorded with the stream, and found again by replay."""

from __future__ import annotations

import pytest

from headwater.errors import Error
from stream.streams import Workshop, publish, seqs_of


async def test_a_consumers_change_and_removal_are_durable_before_it_is_answered(
    workshop: Workshop,
) -> None:
    async with workshop.stream() as stream:
        await publish(stream, *[(b"a", b"%d" % n) for n in range(5)])
        workshop.answers.frames.clear()
        removal, unread = stream.retention.removal_of([2, 4, 9])
        assert unread == []
        stream.consumers.record({"C": b"acked 2, 4"}, removal=removal, then=[b"PUB ok 0\r\n\r\n"])
        assert workshop.answers.frames == b""
        await stream.publishing.settled()
        assert workshop.answers.frames == b"PUB ok 0\r\n\r\n"
        assert await seqs_of(stream) == [1, 3, 5]
    async with workshop.stream() as stream:
        assert stream.consumers.recorded("C") == [b"acked 2, 4"]
        assert stream.consumers.recorded("D") == []
        assert await seqs_of(stream) == [1, 3, 5]


async def test_restored_states_are_found_after_a_restart(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        await stream.consumers.restore({"C": b"one", "D": b"two"})
        assert sorted(stream.consumers.recorded_names) == ["C", "D"]
    async with workshop.stream() as stream:
        assert stream.consumers.recorded("D") == [b"two"]


async def test_a_change_is_not_accepted_while_nothing_can_be_recorded(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        stream._committer.failure = Error("full")
        with pytest.raises(AssertionError, match="lost"):
            stream.consumers.record({"C": b"acked"})
        stream._committer.failure = None
