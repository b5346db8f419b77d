"""Tests of monitor.replicator_page."""

from __future__ import annotations

import json
from pathlib import Path

from control.copiers import copying, count_is, create, publish
from headwater.clock import SystemClock
from headwater.monitor.open_parts import OpenParts
from headwater.monitor.part_numbers import ReplicatorNumbers
from headwater.monitor.replicator_page import ReplicatorPage
from headwater.monitor.served_account import ServedAccount
from headwater.monitor.serving_state import ServingState


async def test_the_page_shows_the_replicator_and_its_jobs(tmp_path: Path) -> None:
    status = ServingState()
    shown = ReplicatorPage(status)
    empty = json.loads((await shown.page({}))[2])
    assert (empty["is_started_here"], empty["is_running"], empty["jobs"]) == (False, None, [])
    status.opened(
        OpenParts(
            replicator=lambda: ReplicatorNumbers(True, 2, False),
            replicator_problem=lambda: "no Java, password=hidden",
        )
    )
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 5)
        await create(door, name="S", sources=[{"name": "O"}])
        await copier.until(count_is(door, "S", 5))
        status.serves(
            ServedAccount("$G", "", "s", door.domain, door.consumers, door.upstreams, SystemClock())
        )
        code, kind, body = await shown.page({})
    found = json.loads(body)
    assert (code, kind) == (200, "application/json")
    assert (found["is_started_here"], found["is_running"], found["restarts"]) == (True, True, 2)
    assert found["problem"] == "no Java, password=…"
    assert found["jobs"][-1]["account"] == "$G"
    assert found["jobs"][-1]["copies"][0]["stream"] == "S"
