"""Each receipt is committed once, whatever else happens, and its replicator gets the outcome."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from control.copiers import copying, count_is, create, publish
from headwater.replication.work import Receipt, Work
from headwater.upstreams import receipts
from headwater.upstreams.planner import CursorAt
from headwater.upstreams.upstream import Upstream


async def test_a_receipt_handed_in_twice_is_taken_once(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 5)
        await create(door, name="S", sources=[{"name": "O"}])
        kept: list[Receipt] = []
        copier.between = lambda receipts: kept.extend(receipts) or receipts  # type: ignore[func-returns-value]
        await copier.until(count_is(door, "S", 5))
        # Who hands in again has missed the answer, and is given it again.
        assert await copier.hand_in(kept) == 5
        assert (await door.domain.stream("S").reading.state()).messages == 5
        other = [msgspec.structs.replace(receipt, rows=receipt.rows + 1) for receipt in kept]
        assert await copier.hand_in(other) == 0
        assert (await door.domain.stream("S").reading.state()).messages == 5


async def test_receipts_handed_in_again_while_they_are_taken_get_the_same_answer(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 5)
        await create(door, name="S", sources=[{"name": "O"}])
        kept: list[Receipt] = []
        copier.between = lambda receipts: kept.extend(receipts) or []  # type: ignore[func-returns-value]
        while not kept:
            await copier.tick()
        assert await asyncio.gather(*(copier.hand_in(kept) for _ in range(3))) == [5, 5, 5]
        assert (await door.domain.stream("S").reading.state()).messages == 5


async def test_nothing_is_planned_for_an_upstream_whose_receipt_is_being_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 5)
        await create(door, name="S", sources=[{"name": "O"}])
        take = receipts.take
        planned: list[Work] = []

        async def take_with_a_request_meanwhile(upstream: Upstream, receipt: Receipt, at: CursorAt) -> int:
            planned.extend(await copier.asked([receipt.work]))
            return await take(upstream, receipt, at)

        monkeypatch.setattr("headwater.upstreams.upstreams.IDLE_S", 0.05)
        monkeypatch.setattr(receipts, "take", take_with_a_request_meanwhile)
        await copier.until(count_is(door, "S", 5))
        assert planned == []


async def test_a_receipt_that_cannot_be_imported_is_reported_and_copied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 5)
        await create(door, name="S", sources=[{"name": "O"}])

        async def broken(*_: object) -> int:
            raise ZeroDivisionError("of our own making")

        with monkeypatch.context() as without:
            without.setattr(receipts, "take", broken)
            while not copier.works:
                assert await copier.tick() == 0
        shown = (await door.asker.ask("STREAM.INFO.S"))["sources"][0]["error"]["description"]
        assert "of our own making" in shown
        await copier.until(count_is(door, "S", 5))
    assert "never retrieved" not in caplog.text
