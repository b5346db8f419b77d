"""One stream, whole: how it is reconfigured, closed and opened again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import DiskError
from headwater.model.stream import Retention
from headwater.stream import committer
from headwater.stream import stream as stream_module
from headwater.stream.retention import evictions, release
from headwater.stream.retention.removal import Removal
from simulation.disks import BreakableDisk, Fault
from stream.followers import Followed
from stream.streams import Workshop, config_of, everything, publish, seqs_of
from waits import until


async def test_a_change_to_interest_retention_removes_unneeded_messages(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        followed = Followed(stream)
        followed.needed = {2, 4}
        await publish(stream, *[(b"a", b"")] * 3)
        await stream.folder.fold()
        await publish(stream, *[(b"a", b"")] * 3)
        await stream.reconfigure(config_of(retention=Retention.INTEREST))
        assert await seqs_of(stream) == [2, 4]


async def test_a_change_to_interest_that_has_removed_messages_is_not_refused(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails after the first removal, which the publish of another client has made durable."""
    monkeypatch.setattr(committer, "RETRY_FIRST_S", 0.001)
    monkeypatch.setattr(stream_module, "REMOVE_FIRST_S", 0.001)
    removals = release.removals

    async def beside_others(*args: Any) -> AsyncIterator[Removal]:
        async for removal in removals(*args):
            yield removal
            await publish(stream, (b"wanted", b""))

    monkeypatch.setattr(release, "removals", beside_others)
    async with workshop.stream() as stream:
        followed = Followed(stream, b"wanted")
        followed.needed = {2, 4, *range(7, 99)}
        await publish(stream, *[(b"a", b"")] * 3)
        await stream.folder.fold()
        await publish(stream, *[(b"a", b"")] * 3)
        log: Any = stream._store.log
        sync, synced = log.sync, []

        def failing() -> None:
            synced.append(True)
            if len(synced) == 2:
                raise DiskError(stream.directory, "sync", ENOSPC)
            sync()

        log.sync = failing
        await stream.reconfigure(config_of(retention=Retention.INTEREST))
        assert stream.config.retention == Retention.INTEREST
        await until(lambda: stream.publishing.is_storing and not stream._store.ledger.is_live(5))
        await stream.publishing.settled()
        assert not {1, 3, 5, 6} & set(await seqs_of(stream))
        assert {2, 4} < set(await seqs_of(stream))


async def test_a_config_whose_history_cannot_be_read_is_not_used(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreadable() -> None:
        raise DiskError(workshop.directory, "read", ENOSPC)

    async with workshop.stream() as stream:
        await publish(stream, *[(b"a", b"")] * 3)
        monkeypatch.setattr(stream._store, "build_history", unreadable)
        with pytest.raises(DiskError):
            await stream.reconfigure(config_of(max_msgs_per_subject=2))
        assert stream.config == config_of()
        await publish(stream, (b"a", b""))
        assert await seqs_of(stream) == [1, 2, 3, 4]


async def test_a_limit_that_the_disk_refuses_to_enforce_is_enforced_once_it_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The config is already in the catalog. After the first removal it cannot be refused any more."""
    monkeypatch.setattr(committer, "RETRY_FIRST_S", 0.001)
    monkeypatch.setattr(stream_module, "REMOVE_FIRST_S", 0.001)
    disk = BreakableDisk(tmp_path)
    workshop = Workshop(tmp_path, disk=disk)
    async with workshop.stream() as stream:
        await publish(stream, *[(b"a", b"")] * 4)
        disk.break_always(Fault.REFUSED)
        await stream.reconfigure(config_of(max_msgs=2))
        assert stream.config == config_of(max_msgs=2)
        disk.heal()
        await until(lambda: stream.publishing.is_storing and stream._store.ledger.messages == 2)
        await stream.publishing.settled()
        assert await seqs_of(stream) == [3, 4]
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


async def test_a_lowered_limit_is_enforced_in_steps_that_let_others_run(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit reads what it removes. Reading a large stream in one step would delay all clients."""
    monkeypatch.setattr(evictions, "EVICTED_AT_ONCE", 10)
    async with workshop.stream() as stream:
        for _ in range(10):
            await publish(stream, *[(b"a", b"") for _ in range(10)])
        turns: list[int] = []
        stream.events.change_callbacks.add(lambda: turns.append(stream._store.ledger.messages))
        changing = asyncio.ensure_future(stream.reconfigure(config_of(max_msgs=3)))
        await until(lambda: stream._store.ledger.messages < 100)
        stream.publishing.offer([(b"a", b"", b"", b"newest")])
        await changing
        await stream.publishing.settled()
        assert len(set(turns)) > 4, "it was removed at once"
        found = await everything(stream)
        assert [message.seq for message in found] == [99, 100, 101]
        assert found[-1].data == b"newest"


async def test_a_disk_that_fails_after_the_first_step_leaves_the_new_limit_in_effect(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some messages are already removed. If the change were refused, they would be lost without a reason."""
    monkeypatch.setattr(evictions, "EVICTED_AT_ONCE", 10)
    monkeypatch.setattr(committer, "RETRY_FIRST_S", 0.001)
    async with workshop.stream() as stream:
        for _ in range(5):
            await publish(stream, *[(b"a", b"") for _ in range(10)])
        log: Any = stream._store.log
        sync, synced = log.sync, []

        def refused() -> None:
            synced.append(True)
            if len(synced) == 2:
                raise DiskError(stream.directory, "sync", ENOSPC)
            sync()

        log.sync = refused
        await stream.reconfigure(config_of(max_msgs=3))
        assert stream.config.max_msgs == 3
        await until(lambda: stream.publishing.is_storing)
        for _ in range(5):
            await publish(stream, (b"a", b""))
        assert await seqs_of(stream) == [53, 54, 55]
