"""A target that lost both checkpoints copies nothing twice: it continues, or it asks where to continue."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from control.copiers import copying, count_is, create, held, publish
from doors import Door
from store import stores

pytestmark = pytest.mark.usefixtures("impatient")


async def source_of(door: Door, target: str) -> dict[str, Any]:
    found: dict[str, Any] = (await door.asker.ask(f"STREAM.INFO.{target}"))["sources"][0]
    return found


async def test_a_source_continues_or_is_refused_after_both_checkpoints_were_lost(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await create(door, name="S", sources=[{"name": "O"}])
        await create(door, name="W", sources=[{"name": "O"}], retention="workqueue")
        await publish(door, "o", 5)
        for name in ("S", "W"):
            await copier.until(count_is(door, name, 5))
            await door.domain.stream(name).checkpoint()
    for name in ("S", "W"):
        for file in ("checkpoint", "checkpoint.copy"):
            stores.flip(tmp_path / "$G" / name / file)
    done = await asyncio.to_thread(stores.repaired, tmp_path)
    assert any(line.startswith("$G/S: source 'O': it is copied from sequence 6 on") for line in done.done)
    assert any("$G/W: source 'O': how far it was copied is lost" in line for line in done.done)
    assert [(found.kind, found.stream) for found in done.left] == [("cursor", "$G/W")]
    async with copying(tmp_path) as (door, copier):
        await publish(door, "o", 3, start=5)
        await copier.until(count_is(door, "S", 8))
        assert len({m.data for m in await held(door, "S")}) == 8

        async def is_refused() -> bool:
            return "opt_start_seq" in (await source_of(door, "W")).get("error", {}).get("description", "")

        await copier.until(is_refused)
        assert len(await held(door, "W")) == 5
        config = (await door.asker.ask("STREAM.INFO.W"))["config"]
        config["sources"] = [{"name": "O", "opt_start_seq": 6}]
        assert "error" not in await door.asker.ask("STREAM.UPDATE.W", config)
        await copier.until(count_is(door, "W", 8))
        assert len({m.data for m in await held(door, "W")}) == 8
