"""Two engines on one store: the second is refused, or the first ends, and no acknowledged message is lost."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import nats.errors
import nats.js.errors
from nats.aio.client import Client

from engines import READY_WORDS, RunningEngine
from waits import until


def side_by_side(directory: Path) -> tuple[RunningEngine, RunningEngine]:
    """Return two engines of one store, each with a nats-server of its own."""
    both = []
    for name in ("first", "second"):
        (directory / name).mkdir()
        both.append(RunningEngine(directory / name, store=directory / "store"))
    return both[0], both[1]


class Publisher:
    """Publishes numbered messages one after the other, and remembers which were acknowledged."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._name = name
        self.acked: dict[int, bytes] = {}
        self.refused = 0
        self._is_stopping = False
        self._task = asyncio.create_task(self._publish())

    async def _publish(self) -> None:
        js = self._client.jetstream(timeout=2)
        number = 0
        while not self._is_stopping:
            number += 1
            data = b"%s %d" % (self._name.encode(), number)
            try:
                ack = await js.publish("a.b", data)
                assert ack.seq not in self.acked, "one sequence for two messages"
                self.acked[ack.seq] = data
            except (nats.errors.Error, nats.js.errors.Error):
                self.refused += 1
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        # Not by a cancellation alone: nats-py may swallow it where a request ends at the same time.
        self._is_stopping = True
        self._task.cancel()
        outcomes = await asyncio.gather(self._task, return_exceptions=True)
        assert not [outcome for outcome in outcomes if isinstance(outcome, AssertionError)]


@asynccontextmanager
async def publishing(running: RunningEngine, name: str) -> AsyncIterator[Publisher]:
    client = await nats.connect(running.client_url, allow_reconnect=False)
    publisher = Publisher(client, name)
    try:
        yield publisher
    finally:
        await publisher.stop()
        await client.close()


async def declare(running: RunningEngine) -> None:
    client = await nats.connect(running.client_url)
    await client.jetstream().add_stream(name="A", subjects=["a.>"])
    await client.close()


async def audit(running: RunningEngine, acked: dict[int, bytes]) -> None:
    """Compare what is stored with what was acknowledged."""
    client = await nats.connect(running.client_url)
    js = client.jetstream(timeout=60)
    state = (await js.stream_info("A")).state
    assert state.lost is None
    for seq, data in acked.items():
        assert (await js.get_msg("A", seq)).data == data
    await client.close()


async def test_a_removed_lock_file_does_not_let_a_second_engine_in(tmp_path: Path) -> None:
    first, second = side_by_side(tmp_path)
    try:
        await first.start()
        await declare(first)
        async with publishing(first, "first") as publisher:
            await until(lambda: len(publisher.acked) > 20)
            (tmp_path / "store" / "engine.lock").unlink()
            second.launch()
            assert await second.ended() == 1
            assert "is in use by another engine" in second.log
            assert "Traceback" not in second.log
            seen = len(publisher.acked)
            await until(lambda: len(publisher.acked) > seen + 20)
        await audit(first, publisher.acked)
    finally:
        await first.stop()
        await second.stop()


def move_from_under(store: Path) -> None:
    """Have the store lie in another directory of the same name, as when a lease of its locks was lost."""
    old = store.with_name("old")
    store.rename(old)
    store.mkdir()
    for path in sorted(old.iterdir()):
        if path.name != "engine.lock":
            path.rename(store / path.name)


async def test_an_engine_that_slept_through_a_take_over_acknowledges_nothing_and_ends(tmp_path: Path) -> None:
    first, second = side_by_side(tmp_path)
    try:
        await first.start()
        await declare(first)
        async with publishing(first, "first") as before:
            await until(lambda: len(before.acked) > 50)
            os.kill(first.pid, signal.SIGSTOP)
            move_from_under(tmp_path / "store")
            await second.start()
            async with publishing(second, "second") as after:
                await until(lambda: len(after.acked) > 50)
                os.kill(first.pid, signal.SIGCONT)
                assert await first.ended() == 1
                seen = len(after.acked)
                await until(lambda: len(after.acked) > seen + 50)
        assert not set(before.acked) & set(after.acked)
        assert first.log.count("was taken from this engine (epoch 1)") >= 1
        assert f"headwater: the store {tmp_path / 'store'} was taken from this engine" in first.log
        assert "with epoch 2" in first.log
        assert "Traceback" not in first.log
        await audit(second, before.acked | after.acked)
        await second.kill()
        await second.start()
        await audit(second, before.acked | after.acked)
    finally:
        await first.stop()
        await second.stop()


async def test_an_engine_that_went_on_through_a_take_over_loses_nothing_that_it_acknowledged(
    tmp_path: Path,
) -> None:
    first, second = side_by_side(tmp_path)
    try:
        await first.start()
        await declare(first)
        async with publishing(first, "first") as before:
            await until(lambda: len(before.acked) > 50)
            move_from_under(tmp_path / "store")
            second.launch()
            assert await first.ended() == 1
            await second.says(READY_WORDS)
            async with publishing(second, "second") as after:
                await until(lambda: len(after.acked) > 50)
        assert not set(before.acked) & set(after.acked)
        await audit(second, before.acked | after.acked)
        await second.stop()
        await second.start()
        await audit(second, before.acked | after.acked)
    finally:
        await first.stop()
        await second.stop()
