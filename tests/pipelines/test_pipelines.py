"""Requests about pipelines, answered by an engine with a runner that needs no Spark."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from doors import Door, opened_door
from headwater.clock import SystemClock
from headwater.control.catalog import Catalog
from headwater.pipelines import pipelines as module
from headwater.pipelines.pipelines import Pipelines
from headwater.spark.pipelines.checkpoint import PipelineCheckpoint
from headwater.wire.pipeline import QueryReport, ReadOffset
from pipelines.runners import SECRET, SUBJECT, FakeRunner
from waits import until

WANTED = {"target": "T", "sql": "SELECT data FROM A", "subject": "t.x"}


class Stage:
    """An engine's pipelines, and who asks them."""

    def __init__(self, door: Door, catalog: Catalog) -> None:
        self.door = door
        self.needed = 0
        self.checkpoints = door.store / ".pipelines"
        self.pipelines = Pipelines(
            door.domain,
            door.connection,
            SystemClock(),
            catalog,
            prefixes=("$JS.API",),
            folder="$G",
            checkpoints=self.checkpoints,
            run_subject=SUBJECT,
            secret=SECRET,
            functions=("m:f",),
            on_needed=self._need,
            problem=lambda: "Java is missing",
        )
        self.runner = FakeRunner(door.asker.connection)

    def _need(self) -> None:
        self.needed += 1

    async def ask(self, endpoint: str, body: Any = None) -> Any:
        return await self.door.asker.ask(f"PIPELINE.{endpoint}", body)

    async def refused(self, endpoint: str, body: Any = None) -> str:
        return str((await self.ask(endpoint, body))["error"]["description"])


@asynccontextmanager
async def staged(tmp_path: Path, *, runs: bool = True) -> AsyncIterator[Stage]:
    """Serve pipelines over two streams, with a runner that runs by itself."""
    catalog = Catalog(tmp_path / "pipelines.db")
    async with opened_door(tmp_path / "store") as door:
        for name in ("A", "T"):
            await door.asker.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name.lower()}.>"]})
        stage = Stage(door, catalog)
        await stage.pipelines.open()
        await door.connection.flush()
        running = asyncio.create_task(stage.runner.run()) if runs else None
        try:
            yield stage
        finally:
            if running is not None:
                running.cancel()
                with suppress(asyncio.CancelledError):
                    await running
            await stage.pipelines.close()
            catalog.close()


async def test_a_checked_pipeline_is_declared_run_paused_and_removed(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        added = await stage.ask("CREATE.P", WANTED)
        assert added["config"]["inputs"] == ["A"]
        assert stage.needed > 0
        await until(lambda: [each.name for each in stage.runner.orders.pipelines] == ["P"])
        assert (await stage.ask("CREATE.P", WANTED))["config"]["id"] == added["config"]["id"]
        assert "another sql" in await stage.refused("CREATE.P", {**WANTED, "sql": "SELECT 2 FROM A"})
        assert (await stage.ask("PAUSE.P"))["state"] == "paused"
        assert stage.runner.orders.pipelines == ()
        resumed = await stage.ask("RESUME.P")
        assert resumed["config"]["revision"] == 3
        checkpoint = PipelineCheckpoint(stage.checkpoints / added["config"]["id"])
        checkpoint.prepare(added["config"]["id"], "", -1)
        assert (await stage.ask("DELETE.P"))["success"]
        assert not checkpoint.path.exists()
        assert (await stage.ask("LIST"))["pipelines"] == []
        assert "there is no pipeline 'P'" in await stage.refused("INFO.P")


async def test_a_pipeline_is_found_by_the_next_engine_with_what_it_had_read(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        added = await stage.ask("CREATE.P", WANTED)
        created = (await stage.door.asker.ask("STREAM.INFO.A"))["created"]
        for n in range(5):
            await stage.door.asker.publish("a.x", b"%d" % n)
        key = added["config"]["id"]
        report = QueryReport(id=key, is_running=True, batch=1, offsets=(ReadOffset(3, created),), rate=2.0)
        stage.runner.reports = (report,)

        async def lags() -> bool:
            return bool((await stage.ask("INFO.P"))["lag"] == 2)

        await until(lags)
        assert (await stage.ask("LIST"))["pipelines"][0]["state"] == "running"
    async with staged(tmp_path, runs=False) as stage:
        found = await stage.ask("INFO.P")
        assert found["config"]["id"] == key
        assert found["state"] == "failing"
        assert found["problem"] == "Java is missing"
        assert stage.needed == 1


async def test_what_spark_refuses_is_not_declared(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.runner.problem = "[PARSE_SYNTAX_ERROR] near 'x' (line 1, pos 3)"
        assert await stage.refused("CREATE.P", WANTED) == stage.runner.problem
        stage.runner.problem, stage.runner.inputs = "", ("NONE",)
        assert "no stream 'NONE'" in await stage.refused("CREATE.P", WANTED)
        stage.runner.inputs = ("T",)
        assert "both read and written" in await stage.refused("CREATE.P", WANTED)
        assert "not in the engine's setting" in await stage.refused(
            "CREATE.P", {"target": "T", "function": "os:system", "inputs": ["A"]}
        )
        assert (await stage.ask("LIST"))["pipelines"] == []


async def test_without_a_runner_nothing_is_declared_and_the_reason_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHECK_S", 0.1)
    async with staged(tmp_path, runs=False) as stage:
        assert await stage.refused("CREATE.P", WANTED) == "nothing was declared: Java is missing"


async def test_hostile_requests_are_answered_with_an_error(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        for endpoint in ("CREATE.P", "CREATE", "CREATE.a.b", "NOTHING", "INFO", "PAUSE.x", "DELETE.x"):
            for body in (None, b"\xff\x00", "[]", {"target": "T"}, {"target": "T", "id": "x"}):
                assert "error" in await stage.ask(endpoint, body), (endpoint, body)
        assert (await stage.ask("LIST"))["pipelines"] == []


async def test_an_account_has_a_limited_number_of_pipelines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_PIPELINES", 2)
    async with staged(tmp_path) as stage:
        await stage.ask("CREATE.P1", WANTED)
        await stage.ask("CREATE.P2", WANTED)
        assert "may not have more" in await stage.refused("CREATE.P3", WANTED)
