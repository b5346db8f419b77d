"""A mirror answers the direct gets of its origin where the origin does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from control.copiers import Copier, copying, count_is, create, publish
from doors import Door
from headwater.bus.connection import NoRespondersError
from headwater.model import headers


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have requests for work answered soon when there is none, so that a test continues."""
    monkeypatch.setattr("headwater.upstreams.upstreams.IDLE_S", 0.05)


async def answerer(door: Door, asked: str, body: Any = None) -> str:
    """Return the stream that answers a direct get, or the status of the answer, or nothing."""
    try:
        frame = await door.asker.raw(f"$JS.API.DIRECT.GET.{asked}", {"seq": 1} if body is None else body)
    except NoRespondersError:
        return ""
    return (headers.get(frame[2], b"Nats-Stream") or frame[2].split(b"\r\n")[0]).decode()


async def mirrored(door: Door, copier: Copier, **config: Any) -> None:
    """Make an origin that allows direct gets, and a mirror of it that has everything."""
    await create(door, name="O", subjects=["o.>"], allow_direct=True)
    await publish(door, "o.a", 3)
    await create(door, name="M", mirror={"name": "O"}, **config)
    await copier.until(count_is(door, "M", 3))
    await copier.tick()


async def update(door: Door, **config: Any) -> Any:
    answer = await door.asker.ask(f"STREAM.UPDATE.{config['name']}", config)
    assert "error" not in answer, answer
    return answer["config"]


async def test_an_origin_of_the_same_domain_answers_itself(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await mirrored(door, copier)
        assert {await answerer(door, "O") for _ in range(20)} == {"O"}
        assert await answerer(door, "M") == "", "a mirror allows no direct gets of its own"


async def test_a_mirror_answers_when_its_origin_is_gone_or_ceases_to(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await mirrored(door, copier)
        await update(door, name="O", subjects=["o.>"], allow_direct=False)
        assert await answerer(door, "O") == "M"
        await update(door, name="O", subjects=["o.>"], allow_direct=True)
        assert await answerer(door, "O") == "O"
        await door.asker.ask("STREAM.DELETE.O")
        assert await answerer(door, "O") == "M"
        assert await answerer(door, "O.o.a", b"") == "M"
        await door.asker.ask("STREAM.DELETE.M")
        assert await answerer(door, "O") == ""


async def test_a_mirror_takes_over_whether_its_origin_allows_it_at_each_update(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await mirrored(door, copier, mirror_direct=False)
        await update(door, name="O", subjects=["o.>"], allow_direct=False)
        assert await answerer(door, "O") == "M", "it was taken over when the mirror was made"
        shown = await update(door, name="M", mirror={"name": "O"}, mirror_direct=True)
        assert not shown["mirror_direct"]
        assert await answerer(door, "O") == ""


async def test_a_promoted_mirror_answers_no_more(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await mirrored(door, copier)
        await door.asker.ask("STREAM.DELETE.O")
        assert await answerer(door, "O") == "M"
        await update(door, name="M", subjects=["m"], mirror_direct=True)
        assert await answerer(door, "O") == ""


async def test_a_mirror_far_behind_does_not_answer(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"], allow_direct=True)
        await publish(door, "o", 12)
        await create(door, name="M", mirror={"name": "O"})
        await update(door, name="O", subjects=["o"], allow_direct=False)
        copier.between = lambda receipts: []
        await copier.tick()
        assert await answerer(door, "O") == ""
        copier.between = lambda receipts: receipts
        await copier.until(count_is(door, "M", 12))
        await copier.tick()
        assert await answerer(door, "O") == "M"


async def test_a_mirror_of_a_part_says_nothing_of_an_origin_that_is_there(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o.*"], allow_direct=True)
        await publish(door, "o.a", 2)
        await create(door, name="M", mirror={"name": "O", "filter_subject": "o.a"})
        await copier.until(count_is(door, "M", 2))
        await copier.tick()
        await update(door, name="O", subjects=["o.*"], allow_direct=False)
        assert await answerer(door, "O") == ""
        await door.asker.ask("STREAM.DELETE.O")
        assert await answerer(door, "O") == "M"


async def test_a_mirror_answers_again_after_a_restart_without_its_origin(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await mirrored(door, copier)
    async with copying(tmp_path) as (door, copier):
        await update(door, name="O", subjects=["o.>"], allow_direct=False)
        await copier.tick()
        assert await answerer(door, "O") == "M"


@pytest.mark.parametrize("wanted", [True, False])
async def test_without_a_visible_origin_the_wish_stays(tmp_path: Path, wanted: bool) -> None:
    async with copying(tmp_path) as (door, _):
        made = await create(door, name="M", mirror={"name": "LATER"}, mirror_direct=wanted)
        assert made["config"]["mirror_direct"] is wanted
