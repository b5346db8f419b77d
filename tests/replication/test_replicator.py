"""The replicator put together, on a cluster of this process; tests/spark runs it on Spark."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest.mock import patch

import pytest

from headwater.bus.options import ConnectOptions
from headwater.replication import replicator
from headwater.replication.replicator import EngineAt, ReplicatorOptions, replicate
from replication.fake_engine import SECRET, STORE_ID, FakeEngine, Inline, serving
from replication.works import brought, tail_of, work_of
from servers import RunningServer, nats_server
from table.samples import message


@asynccontextmanager
async def replicating(
    server: RunningServer, *others: RunningServer, parent: int | None = None
) -> AsyncIterator[tuple[Inline, asyncio.Task[None]]]:
    """Run a replicator on a cluster of this process."""
    cluster = Inline()
    engines = tuple(
        EngineAt(STORE_ID, ConnectOptions(servers=(each.client_url,)), secret=lambda: SECRET)
        for each in (server, *others)
    )
    options = ReplicatorOptions(engines, parent=parent)
    with patch.object(replicator, "SparkCluster", lambda *options: cluster):
        task = asyncio.create_task(replicate(options))
        try:
            yield cluster, task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_what_an_engine_plans_is_copied_until_the_replicator_is_cancelled() -> None:
    engine = FakeEngine()
    async with nats_server() as server, serving(server.client_url, engine):
        async with replicating(server) as (cluster, task):
            for seq in (1, 2):
                engine.offer(work_of(id=str(seq), stop_seq=3, tail=tail_of([message(seq)])))
                assert brought(await engine.receipt()) == [message(seq)]
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    assert cluster.stopped
    assert engine.reported_slots == {(cluster.slots, cluster.task_bytes)}


async def test_an_engine_that_comes_later_is_found() -> None:
    engine = FakeEngine()
    engine.offer(work_of(stop_seq=3, tail=tail_of([message(1)])))
    async with nats_server() as server, replicating(server):
        await asyncio.sleep(0.2)
        async with serving(server.client_url, engine):
            assert brought(await engine.receipt()) == [message(1)]


async def test_a_nats_server_that_comes_later_or_goes_away_is_found_again() -> None:
    engine = FakeEngine()
    async with nats_server() as server:
        await server.kill()
        async with replicating(server):
            await server.start()
            for seq in (1, 2):
                async with serving(server.client_url, engine):
                    engine.offer(work_of(id=str(seq), stop_seq=3, tail=tail_of([message(seq)])))
                    assert brought(await engine.receipt()) == [message(seq)]
                await server.kill()
                await server.start()


async def test_several_engines_share_a_replicator_and_an_unreachable_one_delays_none() -> None:
    engine, other = FakeEngine(), FakeEngine()
    async with nats_server() as here, nats_server() as there, nats_server() as away:
        await away.kill()
        async with serving(here.client_url, engine), serving(there.client_url, other):
            async with replicating(away, here, there):
                engine.offer(work_of(stop_seq=3, tail=tail_of([message(1)])))
                other.offer(work_of(stop_seq=3, tail=tail_of([message(2)])))
                assert brought(await engine.receipt()) == [message(1)]
                assert brought(await other.receipt()) == [message(2)]


async def test_a_replicator_ends_with_the_engine_that_started_it() -> None:
    async with nats_server() as server:
        async with replicating(server, parent=os.getppid() + 1) as (cluster, task):
            await asyncio.wait_for(task, 30)
        assert cluster.stopped


async def test_a_replicator_whose_engine_lives_continues() -> None:
    engine = FakeEngine()
    async with nats_server() as server, serving(server.client_url, engine):
        async with replicating(server, parent=os.getppid()):
            engine.offer(work_of(stop_seq=3, tail=tail_of([message(1)])))
            assert brought(await engine.receipt()) == [message(1)]


def test_secrets_do_not_show_in_the_options() -> None:
    options = ConnectOptions(servers=("nats://me:hush@hub:4222",), user="me", password="hush", token="hush")
    assert "hush" not in repr(ReplicatorOptions((EngineAt(STORE_ID, options),)))
