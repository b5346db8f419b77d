"""Batches, schedules and expired keys after a power cut at any operation of the disk: all or nothing."""

from __future__ import annotations

import random
from asyncio import sleep
from contextlib import suppress
from pathlib import Path

import pytest

from headwater.errors import Error
from headwater.model.stream import StreamConfig
from headwater.model.times import SECOND
from headwater.stream.stream import Stream
from simulation.disks import BreakableDisk, Fault, PowerCut
from stream.batches import RecordedAnswers, commit
from stream.streams import Workshop, config_of, everything, headers, publish

CONFIG = config_of(
    allow_atomic=True,
    allow_rollup_hdrs=True,
    allow_msg_schedules=True,
    allow_msg_ttl=True,
    subject_delete_marker_ttl=60 * SECOND,
    max_msgs_per_subject=1,
)
SCHEDULE = headers(Nats_Schedule="@every 5s", Nats_Schedule_Target="out")
LAST_OPERATION = 400


async def _use(workshop: Workshop, stream: Stream, confirmed: list[str]) -> None:
    """Publish a schedule, a key that expires, and a batch; let the clock run; note what was acknowledged."""
    await publish(stream, (b"in", b"tick", SCHEDULE), (b"key", b"x", headers(Nats_TTL="5s")))
    confirmed.append("published")
    answer = await commit(
        workshop, stream, b"x", *[(b"batch.%d" % n, b"") for n in range(5)], data=b"x" * 30_000
    )
    assert answer["count"] == 5
    confirmed.append("committed")
    await stream.checkpoint()
    workshop.clock.advance(5 * SECOND)
    await stream.retention.expire(workshop.clock.now_ns())
    confirmed.append("fired")


async def _broken_at(nth: int, directory: Path) -> bool:
    """Use a stream on a disk that stops at an operation; return whether it was reached."""
    disk, confirmed = BreakableDisk(directory, seed=nth), list[str]()
    workshop = Workshop(directory, disk=disk, answers=RecordedAnswers())
    reached = False
    try:
        stream = await workshop.open(CONFIG)
        disk.break_at(disk.operations + nth, Fault.POWER_CUT)
        try:
            await _use(workshop, stream, confirmed)
        except (PowerCut, Error):
            reached = True
        with suppress(PowerCut, Error):
            await stream.close()
    finally:
        workshop.close()
    disk.power_cut(random.Random(nth))
    disk.heal()
    await _check(Workshop(directory, disk=disk, answers=RecordedAnswers()), CONFIG, confirmed)
    return reached


async def _check(workshop: Workshop, config: StreamConfig, confirmed: list[str]) -> None:
    async with workshop.stream(config) as stream:
        found = [message.subject for message in await everything(stream)]
        batch = [subject for subject in found if subject.startswith(b"batch.")]
        assert len(batch) in (0, 5), "part of a batch"
        assert "committed" not in confirmed or len(batch) == 5
        assert "published" not in confirmed or b"in" in found
        assert "published" not in confirmed or b"key" in found, "neither the key nor its marker"
        ticks = found.count(b"out")
        assert "fired" not in confirmed or ticks == 1
        if b"in" in found:
            workshop.clock.advance(9 * SECOND)
            await stream.retention.expire(workshop.clock.now_ns())
            assert await stream.reading.last("out") is not None, "the schedule was forgotten"
    workshop.close()


async def test_a_power_cut_leaves_all_or_nothing(tmp_path: Path) -> None:
    reached = 0
    for nth in range(1, LAST_OPERATION):
        if not await _broken_at(nth, tmp_path / str(nth)):
            break
        reached = nth
    else:
        pytest.fail("the script has more operations than were broken")
    assert reached > 10


async def test_a_refused_write_ends_the_fast_batches_whose_messages_it_took_back(tmp_path: Path) -> None:
    disk, recorded = BreakableDisk(tmp_path), RecordedAnswers()
    workshop = Workshop(tmp_path, disk=disk, answers=recorded)
    async with workshop.stream(allow_batched=True) as stream:
        stream.publishing.offer([(b"a", b"p.id.9.fail.1.0.$FI", b"", b"stored")])
        await stream.publishing.settled()
        disk.break_always(Fault.REFUSED)
        stream.publishing.offer([(b"a", b"p.id.9.fail.2.1.$FI", b"", b"taken back")])
        with suppress(Error):
            await stream.publishing.settled()
        disk.heal()
        recorded.bodies()
        while not (answers := recorded.bodies()) or b"10077" in answers[0][1]:
            stream.publishing.offer([(b"a", b"p.id.9.fail.3.2.$FI", b"", b"last")])
            with suppress(Error):
                await stream.publishing.settled()
            await sleep(0.01)
        assert b"10208" in answers[0][1], "a batch was committed that has lost a message"
        assert [message.data for message in await everything(stream)] == [b"stored"]
    workshop.close()
