"""One stream, whole: how it is reconfigured, closed and opened again."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import ApiError
from headwater.model.stream import Retention
from simulation.disks import BreakableDisk, Fault
from stream.followers import Followed
from stream.streams import Workshop, config_of, everything, publish, seqs_of


async def test_a_change_to_retention_by_interest_drops_what_nobody_needs(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        followed = Followed(stream)
        followed.needed = {2, 4}
        await publish(stream, *[(b"a", b"")] * 3)
        await stream.folder.fold()
        await publish(stream, *[(b"a", b"")] * 3)
        await stream.reconfigure(config_of(retention=Retention.INTEREST))
        assert await seqs_of(stream) == [2, 4]


async def test_a_config_that_cannot_be_made_durable_is_not_taken_up(tmp_path: Path) -> None:
    disk = BreakableDisk(tmp_path)
    workshop = Workshop(tmp_path, disk=disk)
    async with workshop.stream() as stream:
        await publish(stream, *[(b"a", b"")] * 4)
        disk.break_always(Fault.REFUSED)
        with pytest.raises(ApiError):
            await stream.reconfigure(config_of(max_msgs=2))
        disk.heal()
        assert stream.config == config_of()
        assert await seqs_of(stream) == [1, 2, 3, 4]
    workshop.close()


async def test_a_closed_stream_refuses_what_is_offered_and_keeps_what_was(workshop: Workshop) -> None:
    stream = await workshop.open(config_of())
    stream.publishing.offer([(b"a", b"r1", b"", b"1")])
    await stream.close()
    stream.publishing.offer([(b"a", b"r2", b"", b"2"), (b"a", b"", b"", b"3")])
    answers = workshop.answers.take()
    assert answers[b"r1"]["seq"] == 1
    assert answers[b"r2"]["error"]["err_code"] == 10077
    async with workshop.stream() as again:
        assert [m.data for m in await everything(again)] == [b"1"]


async def test_limits_declared_while_it_was_closed_are_held_when_it_opens(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        await publish(stream, *[(b"ab"[n % 2 :][:1], b"") for n in range(8)])
    async with workshop.stream(max_msgs_per_subject=3, max_msgs=5) as stream:
        assert await seqs_of(stream) == [4, 5, 6, 7, 8]
