"""Tests of monitor.history_sampler."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from doors import opened_door
from headwater.clock import SystemClock
from headwater.meters import Meters
from headwater.monitor.history_sampler import HistorySampler
from headwater.monitor.served_account import ServedAccount
from headwater.monitor.serving_state import ServingState
from waits import until


async def page(sampler: HistorySampler, **query: str) -> tuple[int, Any]:
    status, kind, body = await sampler.page(query)
    assert kind == "application/json"
    return status, json.loads(body)


async def test_the_page_shows_the_engine_and_each_stream_at_a_step(tmp_path: Path) -> None:
    status, meters = ServingState(), Meters()
    sampler = HistorySampler(status, meters, tmp_path)
    await sampler.sample()
    async with opened_door(tmp_path) as door:
        await door.asker.ask("STREAM.CREATE.A", {"name": "A", "subjects": ["a"]})
        await door.asker.ask("STREAM.CREATE.B", {"name": "B", "sources": [{"name": "A"}]})
        await door.asker.publish("a", b"x")
        status.serves(
            ServedAccount("$G", "", "probe", door.domain, door.consumers, door.upstreams, SystemClock())
        )
        await sampler.sample()
    _, found = await page(sampler)
    before, after = (dict(zip(found["columns"], row, strict=True)) for row in found["rows"])
    assert (before["streams"], after["streams"]) == (0, 2)
    assert after["messages"] >= 1
    assert after["time"] >= before["time"]
    assert after["disk_free_bytes"] > 0
    assert found["streams"] == ["$G/A", "$G/B"]
    _, of_stream = await page(sampler, stream="A")
    row = dict(zip(of_stream["columns"], of_stream["rows"][-1], strict=True))
    assert (row["last_seq"], row["messages"], row["lag"]) == (1, 1, None), "A has no upstream, so no lag"
    assert (await page(sampler, stream="A", account="$G"))[0] == 200
    assert len((await page(sampler, step="300"))[1]["rows"]) == 1


async def test_unknown_steps_and_streams_are_refused(tmp_path: Path) -> None:
    sampler = HistorySampler(ServingState(), Meters(), tmp_path)
    assert (await page(sampler, step="7"))[0] == 400
    assert (await page(sampler, stream="NONE"))[0] == 404
    assert (await page(sampler, stream="NONE", account="$G"))[0] == 404


async def test_a_step_that_fails_does_not_end_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.monitor.history_sampler.STEP_S", 0.001)
    sampler = HistorySampler(ServingState(), Meters(), tmp_path)
    failures = iter([OSError("once")])
    whole = sampler._engine_row

    def row(*given: Any) -> list[float]:
        for failure in failures:
            raise failure
        return whole(*given)

    monkeypatch.setattr(sampler, "_engine_row", row)
    task = asyncio.create_task(sampler.sample_until_cancelled())

    async def sampled() -> bool:
        return len(sampler.history.engine.rows(10)) >= 2

    await until(sampled)
    task.cancel()
