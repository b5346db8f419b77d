"""Groups become durable one after the other; if the disk refuses, callers get errors and nothing is shown."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.errors import ApiError, DiskError, Error, FencedError
from headwater.stream import committer
from headwater.table.table import ConflictError
from simulation.disks import BreakableDisk, Fault
from stream.streams import Workshop, config_of, everything, publish


@pytest.fixture
def disk(tmp_path: Path) -> BreakableDisk:
    return BreakableDisk(tmp_path)


@pytest.fixture
def workshop(tmp_path: Path, disk: BreakableDisk, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setattr(committer, "RETRY_FIRST_S", 0.001)
    monkeypatch.setattr(committer, "RETRY_MOST_S", 0.001)
    return Workshop(tmp_path, disk=disk)


async def test_no_publisher_is_answered_before_the_sync(workshop: Workshop, disk: BreakableDisk) -> None:
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"the first starts a segment"))
        workshop.answers.frames.clear()
        before = disk.operations
        stream.publishing.offer([(b"a", b"reply", b"", b"data")])
        assert not workshop.answers.frames
        await stream.publishing.settled()
        assert [line.split()[0] for line in disk.history[before:]] == ["write", "sync"]
        assert workshop.answers.take() == {b"reply": {"stream": "S", "seq": 2}}


async def test_all_that_is_offered_while_a_group_is_written_shares_the_next_sync(
    workshop: Workshop, disk: BreakableDisk
) -> None:
    async with workshop.stream() as stream:
        stream.publishing.offer([(b"a", b"r0", b"", b"")])
        await asyncio.sleep(0)
        for number in range(1, 50):
            stream.publishing.offer([(b"a", b"r%d" % number, b"", b"")])
        await stream.publishing.settled()
        assert [line.split()[0] for line in disk.history[-4:]] == ["write", "sync", "write", "sync"]
        assert [answer["seq"] for answer in workshop.answers.take().values()] == list(range(1, 51))


async def test_a_refused_sync_refuses_every_publisher_and_forgets_their_messages(
    workshop: Workshop, disk: BreakableDisk
) -> None:
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"kept"))
        workshop.answers.take()
        disk.break_at(disk.operations + 2, Fault.REFUSED)
        with pytest.raises(ApiError, match="input/output error"):
            await publish(stream, (b"a", b"one"), (b"b", b"two"))
        answers = workshop.answers.take()
        assert {answer["error"]["err_code"] for answer in answers.values()} == {10077}
        assert len(answers) == 2
        assert [message.data for message in await everything(stream)] == [b"kept"]
        assert (await stream.reading.state()).last_seq == 1


async def test_what_is_offered_while_the_disk_refuses_is_refused_at_once(
    workshop: Workshop, disk: BreakableDisk
) -> None:
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"kept"))
        workshop.answers.take()
        disk.break_always(Fault.REFUSED)
        with pytest.raises(ApiError):
            await publish(stream, (b"a", b"one"))
        workshop.answers.take()
        stream.publishing.offer([(b"a", b"reply", b"", b"two"), (b"a", b"", b"", b"wants no answer")])
        assert list(workshop.answers.take()) == [b"reply"]
        for refused in (
            stream.retention.remove(1),
            stream.retention.purge(),
            stream.reconfigure(stream.config),
        ):
            with pytest.raises(ApiError):
                await refused
        disk.heal()
        assert [message.data for message in await everything(stream)] == [b"kept"]
        while stream._committer.failure is not None:
            await asyncio.sleep(0.001)
        await publish(stream, (b"a", b"three"))
        assert workshop.answers.take()[b"r0"]["seq"] == 2


async def test_a_duplicate_of_a_message_that_was_refused_is_refused_with_it(
    workshop: Workshop, disk: BreakableDisk
) -> None:
    block = b"NATS/1.0\r\nNats-Msg-Id: x\r\n\r\n"
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"the first starts a segment"))
        workshop.answers.frames.clear()
        disk.break_at(disk.operations + 1, Fault.REFUSED)
        stream.publishing.offer([(b"a", b"r0", block, b"")])
        await asyncio.sleep(0)
        stream.publishing.offer([(b"a", b"r1", block, b"")])
        with pytest.raises(ApiError):
            await stream.publishing.settled()
        assert all("error" in answer for answer in workshop.answers.take().values())
        await stream.reading.state()
        await publish(stream, (b"a", b"again", block))
        assert workshop.answers.take() == {b"r0": {"stream": "S", "seq": 2}}


async def test_a_group_that_was_synced_is_acknowledged_even_if_the_rotation_after_it_fails(
    workshop: Workshop, disk: BreakableDisk
) -> None:
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"the first starts a segment"))
        workshop.answers.frames.clear()
        stream.publishing.offer([(b"a", b"reply", b"", b"data")])
        disk.break_at(disk.operations + 3, Fault.REFUSED)
        with pytest.raises(DiskError):
            await stream.folder.fold()
        assert workshop.answers.take() == {b"reply": {"stream": "S", "seq": 2}}
        assert [message.data for message in await everything(stream)][1:] == [b"data"]


async def test_readers_wait_until_the_ledger_holds_only_what_is_durable(
    workshop: Workshop, disk: BreakableDisk
) -> None:
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"one"))
        disk.break_at(disk.operations + 1, Fault.REFUSED)
        stream.publishing.offer([(b"a", b"", b"", b"two")])
        reads = [
            asyncio.create_task(read)
            for read in (stream.reading.message(2), stream.reading.last("a"), stream.reading.next("a", 2))
        ]
        states = [asyncio.create_task(stream.reading.state()) for _ in range(3)]
        two, last, following = await asyncio.gather(*reads)
        assert two is None
        assert last is not None
        assert last.data == b"one"
        assert following is None
        assert {state.last_seq for state in await asyncio.gather(*states)} == {1}


async def test_a_closed_stream_leaves_no_caller_waiting(workshop: Workshop) -> None:
    stream = await workshop.open(config_of())
    await publish(stream, (b"a", b"one"))
    workshop.answers.take()
    await stream.close()
    stream.publishing.offer([(b"a", b"reply", b"", b"late")])
    assert "error" in workshop.answers.take()[b"reply"]
    for late in (stream.reading.message(1), stream.retention.remove(1), stream.reading.state()):
        with pytest.raises(ApiError, match="closed"):
            await late
    await stream.folder.fold()
    await stream.folder.tidy()
    await stream.publishing.caught_up()


async def test_closing_makes_durable_what_was_offered(workshop: Workshop) -> None:
    stream = await workshop.open(config_of())
    stream.publishing.offer([(b"a", b"reply", b"", b"data")])
    await stream.close()
    assert workshop.answers.take()[b"reply"]["seq"] == 1
    async with workshop.stream(config_of()) as stream:
        assert [message.data for message in await everything(stream)] == [b"data"]


async def test_a_stream_whose_disk_never_heals_can_be_closed(workshop: Workshop, disk: BreakableDisk) -> None:
    stream = await workshop.open(config_of())
    disk.break_always(Fault.REFUSED)
    with pytest.raises(ApiError):
        await publish(stream, (b"a", b"one"))
    fold = asyncio.create_task(stream.folder.fold())
    await asyncio.sleep(0)
    await stream.close()
    with pytest.raises(Error):
        await fold


async def test_a_promise_is_kept_only_for_what_was_stored(workshop: Workshop, disk: BreakableDisk) -> None:
    async with workshop.stream() as stream:
        await stream.publishing.promise()
        stream.publishing.offer([(b"a", b"", b"", b"kept")])
        await stream.publishing.promise()
        assert stream.reading.durable_seq == 1
        disk.break_at(disk.operations + 2, Fault.REFUSED)
        stream.publishing.offer([(b"a", b"", b"", b"lost")])
        lost = stream.publishing.promise()
        with pytest.raises(ApiError, match="input/output error"):
            await lost


async def test_nothing_is_promised_while_the_disk_refuses(workshop: Workshop, disk: BreakableDisk) -> None:
    async with workshop.stream() as stream:
        disk.break_always(Fault.REFUSED)
        with pytest.raises(ApiError):
            await publish(stream, (b"a", b"one"))
        stream.publishing.offer([(b"a", b"", b"", b"two")])
        with pytest.raises(ApiError):
            await stream.publishing.promise()
        disk.heal()


async def test_a_wake_without_a_change_is_no_wait_for_an_ack(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now_s=1.0)
    monkeypatch.setattr(committer, "time", SimpleNamespace(perf_counter=lambda: clock.now_s))
    async with workshop.stream() as stream:
        stream._committer.wake()
        await asyncio.sleep(0)
        clock.now_s = 1000.0
        await publish(stream, (b"a", b"x"))
        assert stream._committer._meters.ack_latency.total == 0.0


async def test_an_error_of_a_listener_is_its_own(workshop: Workshop) -> None:
    def fail() -> None:
        raise RuntimeError("a bug in a listener")

    woken: list[int] = []
    async with workshop.stream() as stream:
        stream.events.listen(Failing())
        stream.events.message_callbacks.add(fail)
        stream.events.message_callbacks.add(lambda: woken.append(1))
        await publish(stream, (b"a", b"one"), (b"a", b"two"))
        assert len(workshop.answers.take()) == 2
        workshop.answers.frames.clear()
        await publish(stream, (b"a", b"three"))
        assert all("error" not in answer for answer in workshop.answers.take().values())
        assert [message.data for message in await everything(stream)] == [b"one", b"two", b"three"]
        assert woken


async def test_a_stream_whose_store_was_taken_over_stores_and_answers_nothing_any_more(
    workshop: Workshop, disk: BreakableDisk
) -> None:
    owner = Owner()
    workshop.services = replace(workshop.services, fence=owner)
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"one"))
        workshop.answers.frames.clear()
        owner.is_fenced = True
        stream.publishing.offer([(b"a", b"reply", b"", b"two")])
        with pytest.raises(ApiError, match="taken from this engine"):
            await stream.publishing.settled()
        assert "error" in workshop.answers.take()[b"reply"]
        before = disk.operations
        owner.is_fenced = False  # whatever it looks like from now on
        await asyncio.sleep(0.3)
        stream.publishing.offer([(b"a", b"again", b"", b"three")])
        assert "error" in workshop.answers.take()[b"again"]
        with pytest.raises(ApiError):
            await stream.reading.state()
        assert not {line.split()[0] for line in disk.history[before:]} & {"write", "sync", "open", "rename"}


async def test_a_table_is_not_opened_again_by_an_engine_whose_store_was_taken_over(
    workshop: Workshop,
) -> None:
    """Opening removes incomplete files, and these may be files of the new owner."""
    owner = Owner()
    workshop.services = replace(workshop.services, fence=owner)
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"one"))
        await stream.folder.fold()
        (file,) = stream._store.table.files
        writing = (stream._store.table.directory / file.path).with_name("part-of-the-new-owner.tmp")
        writing.write_bytes(b"half")
        owner.is_fenced = True

        def conflict() -> None:
            raise ConflictError("the new owner has committed")

        with pytest.raises(FencedError):
            await stream._store.change_table(conflict)
        assert writing.exists()
        owner.is_fenced = False


class Failing:
    """A listener with a bug."""

    def on_stored(self, entries: object) -> None:
        raise RuntimeError("a bug in a listener")

    def on_adopted(self, adopted: object) -> None:
        raise RuntimeError("a bug in a listener")

    def on_rebuilt(self) -> None:
        raise RuntimeError("a bug in a listener")

    def on_removed(self, removal: object) -> None:
        """Take note of nothing."""

    def wants(self, subject: bytes) -> bool:
        return True

    def dump(self) -> dict[str, list[bytes]]:
        return {}

    def released(self, run: object, rows: Any) -> Any:
        raise RuntimeError("a bug in a listener")

    def is_done_with(self, first_seq: int, last_seq: int) -> bool:
        return False


class Owner:
    """A fence that a test lowers."""

    epoch = 1
    is_fenced = False

    def check(self) -> None:
        """Raise if the store is another's."""
        if self.is_fenced:
            raise FencedError(Path("store"), 1, "process 7 has it")
