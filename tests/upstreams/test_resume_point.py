"""Where a copy continues: what was removed before it could be copied is recorded, and stays recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from control.copiers import Copier, copying, count_is, create, held, publish
from doors import Door
from headwater.clock import SystemClock
from headwater.model.upstream import StreamSource
from headwater.replication.work import Work
from headwater.stream.replica.importer import CursorMovedError
from headwater.stream.stream import Stream
from headwater.upstreams import planning
from headwater.upstreams.origins import Origins
from headwater.upstreams.planner import OriginRange, plan_local
from headwater.upstreams.resume_point import Resumption
from table.samples import columns

pytestmark = pytest.mark.usefixtures("impatient")


async def fare(door: Door, target: str) -> dict[str, Any]:
    """Return the status of the mirror, or of the only source, of a stream."""
    info = await door.asker.ask(f"STREAM.INFO.{target}")
    found: dict[str, Any] = info["mirror"] if "mirror" in info else info["sources"][0]
    return found


async def gaps(door: Door, target: str) -> list[tuple[int, int, str]]:
    """Return the gaps that are shown."""
    shown = (await fare(door, target))["headwater"].get("gaps", {"recent": []})
    return [(gap["first_seq"], gap["last_seq"], gap["reason"]) for gap in shown["recent"]]


async def update(door: Door, **config: Any) -> None:
    assert "error" not in await door.asker.ask(f"STREAM.UPDATE.{config['name']}", config)


async def copied(door: Door, copier: Copier, target: str, count: int) -> None:
    await copier.until(count_is(door, target, count))


@pytest.mark.parametrize("folded", [False, True])
async def test_a_gap_of_retention_is_noted_and_survives_a_restart(tmp_path: Path, folded: bool) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"], max_msgs=4)
        await create(door, name="M", mirror={"name": "O"})
        await create(door, name="S", sources=[{"name": "O"}])
        await publish(door, "o", 2)
        await copied(door, copier, "M", 2)
        await copied(door, copier, "S", 2)
        await publish(door, "o", 10, start=2)
        await copied(door, copier, "M", 6)
        await copied(door, copier, "S", 6)
        assert [m.seq for m in await held(door, "M")] == [1, 2, 9, 10, 11, 12]
        assert await gaps(door, "M") == await gaps(door, "S") == [(3, 8, "retention")]
        if folded:
            await door.domain.stream("M").checkpoint()
    async with copying(tmp_path) as (door, copier):
        assert await gaps(door, "M") == [(3, 8, "retention")]
        shown = (await fare(door, "M"))["headwater"]["gaps"]
        assert (shown["count"], shown["sequences"]) == (1, 6)
        await publish(door, "o", 1, start=12)
        await copied(door, copier, "M", 7)
        assert await gaps(door, "M") == [(3, 8, "retention")], "noted once"


@pytest.mark.parametrize("folded", [False, True])
async def test_what_is_removed_while_a_copy_is_planned_is_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folded: bool
) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"], max_msgs=4)
        await create(door, name="M", mirror={"name": "O"})
        await publish(door, "o", 2)
        await copied(door, copier, "M", 2)
        await publish(door, "o", 4, start=2)
        if folded:
            await door.domain.stream("O").checkpoint()
        plan, is_first = plan_local, True

        async def publish_first(*args: Any) -> list[Work]:
            nonlocal is_first
            if is_first:
                is_first = False
                await publish(door, "o", 3, start=6)
            return await plan(*args)

        monkeypatch.setattr(planning, "plan_local", publish_first)
        await copied(door, copier, "M", 6)
        assert [m.seq for m in await held(door, "M")] == [1, 2, 6, 7, 8, 9]
        assert await gaps(door, "M") == [(3, 5, "retention")]


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("kind", ["mirror", "source"])
async def test_an_origin_that_rolls_over_at_every_plan_leaves_no_unreported_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folded: bool, kind: str
) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"], max_msgs=4)
        upstream = {"mirror": {"name": "O"}} if kind == "mirror" else {"sources": [{"name": "O"}]}
        await create(door, name="M", **upstream)
        await publish(door, "o", 2)
        await copied(door, copier, "M", 2)
        await publish(door, "o", 4, start=2)
        if folded:
            await door.domain.stream("O").checkpoint()
        plan, plans, last_seq = plan_local, 0, 6

        async def publish_around(*args: Any) -> list[Work]:
            """Have the origin drop a message before each plan, and another one after it."""
            nonlocal plans, last_seq
            plans += 1
            rolls = plans <= 3 * planning.PLANS
            if rolls:
                await publish(door, "o", 1, start=last_seq)
            works = await plan(*args)
            if rolls:
                await publish(door, "o", 1, start=last_seq + 1)
                last_seq += 2
            return works

        monkeypatch.setattr(planning, "plan_local", publish_around)

        async def kept() -> set[int]:
            return {int(message.data.split()[1]) + 1 for message in await held(door, "M")}

        async def caught_up() -> bool:
            return plans > 3 * planning.PLANS and last_seq in await kept()

        await copier.until(caught_up)
        found = await kept()
        assert (await fare(door, "M"))["headwater"]["gaps"]["sequences"] == last_seq - len(found)
        missed = {seq for first, last, _ in await gaps(door, "M") for seq in range(first, last + 1)}
        assert not found & missed
        assert len(found) > 6, "some were copied in between"


async def test_a_purge_at_the_origin_while_behind_is_a_gap(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await create(door, name="M", mirror={"name": "O"})
        await publish(door, "o", 3)
        await copied(door, copier, "M", 3)
        await publish(door, "o", 4, start=3)
        await door.asker.ask("STREAM.PURGE.O")
        await copier.tick()
        assert await gaps(door, "M") == [(4, 7, "purge")]
        state = await door.domain.stream("M").reading.state()
        assert (state.messages, state.last_seq) == (3, 7), "what was copied stays, and sequences continue"
        await publish(door, "o", 1, start=7)
        await copied(door, copier, "M", 4)
        assert [m.seq for m in await held(door, "M")] == [1, 2, 3, 8]
        assert await gaps(door, "M") == [(4, 7, "purge")]


async def test_a_purge_after_the_copy_is_none(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await create(door, name="M", mirror={"name": "O"})
        await publish(door, "o", 3)
        await copied(door, copier, "M", 3)
        await door.asker.ask("STREAM.PURGE.O")
        await publish(door, "o", 1, start=3)
        await copied(door, copier, "M", 4)
        assert await gaps(door, "M") == []


async def test_interior_deletes_at_the_origin_are_no_gap(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await create(door, name="M", mirror={"name": "O"})
        await publish(door, "o", 10)
        for seq in (4, 5, 8):
            await door.domain.stream("O").retention.remove(seq)
        await copied(door, copier, "M", 7)
        assert await held(door, "M") == await held(door, "O")
        assert await gaps(door, "M") == []
        assert door.domain.stream("M").reading.deleted() == [4, 5, 8]


async def test_messages_that_leave_with_their_acks_are_no_gap(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await create(door, name="M", mirror={"name": "O"})
        await publish(door, "o", 2)
        await copied(door, copier, "M", 2)
        await update(door, name="O", subjects=["o"], retention="interest")
        await publish(door, "o", 3, start=2)
        await copier.tick()
        assert await gaps(door, "M") == []


async def test_a_source_whose_origin_was_re_created_starts_over_and_logs_it(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await create(door, name="S", sources=[{"name": "O"}])
        await publish(door, "o", 5)
        await copied(door, copier, "S", 5)
        assert "restarts" not in (await fare(door, "S"))["headwater"]
        await door.asker.ask("STREAM.DELETE.O")
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 3)
        await copied(door, copier, "S", 8)
        assert (await fare(door, "S"))["headwater"]["restarts"]["count"] == 1
        await publish(door, "o", 1, start=3)
        await copied(door, copier, "S", 9)
        assert (await fare(door, "S"))["headwater"]["restarts"]["count"] == 1
    async with copying(tmp_path) as (door, copier):
        assert (await fare(door, "S"))["headwater"]["restarts"]["count"] == 1


async def test_what_an_origin_still_held_when_it_was_deleted_is_a_gap(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await create(door, name="S", sources=[{"name": "O"}])
        await publish(door, "o", 5)
        await copied(door, copier, "S", 5)
        await publish(door, "o", 4, start=5)
        copier.between = lambda receipts: []
        await copier.tick()
        await door.asker.ask("STREAM.DELETE.O")
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 2)
        copier.between = lambda receipts: receipts
        await copied(door, copier, "S", 7)
        assert await gaps(door, "S") == [(6, 9, "re-created")]


async def test_a_deleted_origin_is_an_error_and_what_was_copied_stays(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await create(door, name="M", mirror={"name": "O"})
        await publish(door, "o", 5)
        await copied(door, copier, "M", 5)
        await door.asker.ask("STREAM.DELETE.O")
        await copier.tick()
        shown = await fare(door, "M")
        assert shown["error"]["err_code"] == 10059
        assert shown["headwater"]["phase"] == "retrying"
        assert (await door.domain.stream("M").reading.state()).messages == 5


@pytest.mark.parametrize("replacement", [{"name": "M2", "mirror": {"name": "O"}}, None])
async def test_the_remedies_for_a_mirror_whose_origin_was_re_created(
    tmp_path: Path, replacement: dict[str, Any] | None
) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await create(door, name="M", mirror={"name": "O"})
        await publish(door, "o", 5)
        await copied(door, copier, "M", 5)
        await door.asker.ask("STREAM.DELETE.O")
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 9)
        await copier.tick()
        assert "re-created" in (await fare(door, "M"))["error"]["description"]
        if replacement:
            await create(door, **replacement)
            await copied(door, copier, "M2", 9)
        else:
            await update(door, name="M", subjects=["m"], sources=[{"name": "O"}])
            await copied(door, copier, "M", 14)


@pytest.mark.parametrize("kind", ["mirror", "sources"])
async def test_a_restored_origin_is_another_one(tmp_path: Path, kind: str) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        upstream = {"mirror": {"name": "O"}} if kind == "mirror" else {"sources": [{"name": "O"}]}
        await create(door, name="T", **upstream)
        await publish(door, "o", 5)
        await copied(door, copier, "T", 5)
        config = door.domain.stream("O").config
        await door.asker.ask("STREAM.DELETE.O")

        async def fill(stream: Stream) -> None:
            await stream.publishing.load(columns([1, 2, 3]))

        await door.domain.restore_stream(config, fill)
        if kind == "mirror":
            await copier.tick()
            assert "restored" in (await fare(door, "T"))["error"]["description"]
            assert (await door.domain.stream("T").reading.state()).messages == 5
        else:
            await copied(door, copier, "T", 8)
            assert (await fare(door, "T"))["headwater"]["restarts"]["count"] == 1


async def test_a_cursor_that_moves_while_the_start_is_looked_up_is_not_set_back(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await create(door, name="S", sources=[{"name": "O", "opt_start_time": "2020-01-01T00:00:00Z"}])
        await publish(door, "o", 3)
        await copied(door, copier, "S", 3)
        await door.asker.ask("STREAM.DELETE.O")
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 4)

        class Slow(Origins):
            """Another task plans, copies and commits while this one searches for the start."""

            async def seq_at(self, source: StreamSource, extent: OriginRange) -> int:
                await copied(door, copier, "S", 7)
                return await super().seq_at(source, extent)

        origins = Slow(door.domain, door.connection)
        (upstream,) = door.upstreams.of("S")
        extent = await origins.extent(upstream.source)
        with pytest.raises(CursorMovedError):
            await Resumption(origins, SystemClock()).next_seq(upstream, extent, noting=True)
        assert upstream.cursor.seq == 4


@pytest.mark.parametrize("folded", [False, True])
async def test_a_mirror_that_was_purged_beyond_its_end_continues_there(tmp_path: Path, folded: bool) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 20)
        await create(door, name="M", mirror={"name": "O"})
        await copied(door, copier, "M", 20)
        assert (await door.asker.ask("STREAM.PURGE.M", {"seq": 30}))["purged"] == 20
        await publish(door, "o", 20)
        if folded:
            await door.domain.stream("O").checkpoint()
        await copied(door, copier, "M", 11)
        assert [m.seq for m in await held(door, "M")] == list(range(30, 41))
