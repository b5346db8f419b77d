"""A plan has work of every upstream that is behind, as much as its slots can read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from control.copiers import Copier, copying, create, publish
from doors import Door
from headwater.replication.work import Work
from headwater.replication.worker.transfer import transfer


@pytest.fixture
async def crowd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Door, Copier]]:
    """Yield an engine with six sources of one file each, and a last one of a few messages."""
    async with copying(tmp_path) as (door, copier):
        for number in range(6):
            await create(door, name=f"O{number}", subjects=[f"o{number}"])
            await publish(door, f"o{number}", 5)
            await door.domain.stream(f"O{number}").checkpoint()
        await create(door, name="TRICKLE", subjects=["trickle"])
        await publish(door, "trickle", 5)
        for name in [f"O{number}" for number in range(6)] + ["TRICKLE"]:
            await create(door, name=f"{name}-COPY", sources=[{"name": name}])
        size = min(file.size_bytes for file in door.domain.stream("O0").replica.files_from(1, 1))
        monkeypatch.setattr("headwater.upstreams.planning.SLOT_BYTES", size * 3 // 2)
        yield door, copier


def targets(works: Sequence[Work]) -> list[str]:
    return [work.target for work in works]


async def test_a_plan_reads_what_its_slots_can_and_all_have_their_turn(
    crowd: tuple[Door, Copier], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, copier = crowd
    copier.slots = 1
    # Those that wait for the next plan must not count as if they stood in this one.
    monkeypatch.setattr("headwater.upstreams.planning.EXCHANGE_BYTES", 5000)
    plans = [await copier.asked()]
    assert targets(plans[0]) == ["O0-COPY", "O1-COPY", "TRICKLE-COPY"]
    while sum(map(len, plans)) < 7:
        plans.append(await copier.asked([work.id for plan in plans for work in plan]))
    assert [targets(plan) for plan in plans[1:]] == [["O2-COPY", "O3-COPY"], ["O4-COPY", "O5-COPY"]]
    taken = [await copier.hand_in([transfer(work) for work in plan]) for plan in plans]
    assert taken == [15, 10, 10]


async def test_a_plan_for_many_slots_reads_for_all_of_them(crowd: tuple[Door, Copier]) -> None:
    _, copier = crowd
    copier.slots = 100
    assert len(await copier.asked()) == 7


@pytest.mark.parametrize("slots", [0, -5])
async def test_a_replicator_without_slots_is_given_work_for_one(
    crowd: tuple[Door, Copier], slots: int
) -> None:
    _, copier = crowd
    copier.slots = slots
    assert targets(await copier.asked()) == ["O0-COPY", "O1-COPY", "TRICKLE-COPY"]


async def test_the_upstream_that_was_copied_last_is_planned_last(crowd: tuple[Door, Copier]) -> None:
    door, copier = crowd
    copier.slots = 1
    await copier.tick()
    for number in range(6):
        await publish(door, f"o{number}", 5, start=5)
        await door.domain.stream(f"O{number}").checkpoint()
    works: list[Work] = []
    while len(works) < 6:
        works += await copier.asked([work.id for work in works])
    assert targets(works) == [f"O{number}-COPY" for number in (2, 3, 4, 5, 0, 1)]


async def test_a_plan_that_got_lost_is_made_again_at_once(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 4)
        await create(door, name="M", mirror={"name": "O"})
        copier.between = lambda receipts: []
        await copier.tick()
        copier.between = lambda receipts: receipts
        assert await copier.tick() == 4
