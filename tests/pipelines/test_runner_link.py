"""The exchange with runners: proven, one at a time, answered when something changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headwater.replication.proof import UnprovenError
from pipelines.runners import FakeRunner
from pipelines.test_pipelines import WANTED, staged


async def test_a_runner_without_the_secret_gets_no_orders(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.ask("CREATE.P", WANTED)
        stranger = FakeRunner(stage.door.asker.connection, "stranger", b"guess")
        with pytest.raises(UnprovenError):
            await stranger.ask()
        with pytest.raises(UnprovenError):
            await stranger.ask()


async def test_a_second_runner_gets_no_orders_while_the_first_is_heard(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.pipelines._link._is_single = False
        await stage.ask("CREATE.P", WANTED)
        second = FakeRunner(stage.door.asker.connection, "second")
        assert (await second.ask()).pipelines == ()
        assert (await stage.ask("INFO.P"))["state"] in ("running", "starting")


async def test_a_request_is_answered_as_soon_as_orders_change(tmp_path: Path) -> None:
    async with staged(tmp_path, runs=False) as stage:
        runner = stage.runner
        await runner.ask()
        waiting = asyncio.create_task(stage.ask("CREATE.P", WANTED))
        while not (await runner.ask()).checks:
            pass
        await runner.ask()
        assert (await waiting)["state"] == "starting"
        assert [each.name for each in (await runner.ask()).pipelines] == ["P"]
