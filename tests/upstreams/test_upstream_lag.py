"""The lag of an upstream is what its origin still holds for it."""

from __future__ import annotations

from pathlib import Path

from control.copiers import copying, create, publish


async def test_lag_is_what_the_origin_still_holds(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 7)
        await create(door, name="M", mirror={"name": "O"})
        copier.between = lambda receipts: []
        await copier.tick()
        assert (await door.asker.ask("STREAM.INFO.M"))["mirror"]["lag"] == 7


async def test_the_age_is_asked_once_for_each_oldest_message(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, _):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 2)
        await create(door, name="M", mirror={"name": "O"})
        (upstream,) = door.upstreams.of("M")
        upstream.pace.saw(1, 2, 0)
        assert upstream.pace.wants_age(1)
        await door.upstreams._observer._lag.measure_age(upstream)
        assert not upstream.pace.wants_age(1)
        assert upstream.pace.wants_age(2)
