"""Mirrors with limits, rollups, deletes, a seal and a promotion fare as those of a real nats-server do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from control.copiers import ROUNDS, Copier, copying
from doors import Asker, opened_jetstream
from headwater.bus.connection import NoRespondersError
from headwater.model.headers import build

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have requests for work answered soon when there is none, so that a test continues."""
    monkeypatch.setattr("headwater.upstreams.upstreams.IDLE_S", 0.05)


class Twins:
    """Two servers that get the same requests; their mirrors must end up with the same messages."""

    def __init__(self, ours: Asker, theirs: Asker, copier: Copier) -> None:
        self.ours = ours
        self.theirs = theirs
        self._copier = copier

    async def ask(self, subject: str, body: Any = None) -> Json:
        """Return the answer, of which errors must be alike."""
        theirs, ours = await self.theirs.ask(subject, body), await self.ours.ask(subject, body)
        assert ours.get("error") == theirs.get("error"), subject
        return dict(ours)

    async def create(self, **config: Any) -> Json:
        answer = await self.ask(f"STREAM.CREATE.{config['name']}", config)
        assert "error" not in answer, answer
        return answer

    async def publish(self, subject: str, count: int = 1, rollup: bytes = b"") -> None:
        block = build([(b"Nats-Rollup", rollup)]) if rollup else b""
        for _ in range(count):
            ours = await self.ours.publish(subject, b"data", block)
            assert ours == await self.theirs.publish(subject, b"data", block)

    async def both(self, stream: str, last_seq: int) -> Json:
        """Return the state of a stream once both have reached a sequence; the states must be equal."""
        await self._copier.until(self._reached(self.ours, stream, last_seq))
        reached = self._reached(self.theirs, stream, last_seq)
        for _ in range(ROUNDS):
            if await reached():
                break
            await asyncio.sleep(0.02)
        ours, theirs = await state(self.ours, stream), await state(self.theirs, stream)
        assert ours == theirs
        return ours

    def _reached(self, asker: Asker, stream: str, last_seq: int) -> Callable[[], Any]:
        async def reached() -> bool:
            return bool((await state(asker, stream))["last_seq"] == last_seq)

        return reached


async def state(asker: Asker, stream: str) -> Json:
    info = await asker.ask(f"STREAM.INFO.{stream}", {"deleted_details": True})
    wanted = ("messages", "bytes", "first_seq", "last_seq", "num_deleted", "deleted", "num_subjects")
    return {name: info["state"].get(name) for name in wanted}


@asynccontextmanager
async def opened_twins(store: Path) -> AsyncIterator[Twins]:
    async with copying(store) as (door, copier), opened_jetstream() as theirs:
        yield Twins(door.asker, theirs, copier)


@pytest.fixture
async def twins(tmp_path: Path) -> AsyncIterator[Twins]:
    async with opened_twins(tmp_path) as both:
        await both.create(name="O", subjects=["o.>"], allow_rollup_hdrs=True)
        yield both


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        ({"max_msgs": 3}, 3),
        ({"max_bytes": 150}, 4),
        ({"max_msgs_per_subject": 2}, 4),
        ({"compression": "s2", "storage": "memory"}, 10),
        ({"max_msgs": 3, "max_msgs_per_subject": 1}, 2),
    ],
)
async def test_a_mirror_s_own_limits(twins: Twins, limits: Json, left: int) -> None:
    await twins.create(name="M", mirror={"name": "O"}, **limits)
    await twins.publish("o.a", 5)
    await twins.publish("o.b", 5)
    assert (await twins.both("M", 10))["messages"] == left


@pytest.mark.parametrize(("limits", "left"), [({"max_msgs": 3}, 3), ({"max_bytes": 150}, 4)])
async def test_a_full_mirror_that_discards_new_ones_stands_still(
    twins: Twins, limits: Json, left: int
) -> None:
    await twins.publish("o.a", 10)
    await twins.create(name="M", mirror={"name": "O"}, discard="new", **limits)
    assert (await twins.both("M", left))["messages"] == left


@pytest.mark.parametrize("kind", [b"sub", b"all"])
@pytest.mark.parametrize("allowed", [True, False])
async def test_a_mirror_rolls_up_only_where_it_may(twins: Twins, kind: bytes, allowed: bool) -> None:
    await twins.create(name="M", mirror={"name": "O"}, allow_rollup_hdrs=allowed)
    await twins.publish("o.a", 3)
    await twins.publish("o.b", 2)
    await twins.both("M", 5)
    await twins.publish("o.a", 1, kind)
    left = {(b"sub", True): 3, (b"all", True): 1}.get((kind, allowed), 6)
    assert (await twins.both("M", 6))["messages"] == left


async def test_local_deletes_and_purges_stay_local_and_are_not_fetched_again(twins: Twins) -> None:
    await twins.create(name="M", mirror={"name": "O"})
    await twins.publish("o.a", 5)
    await twins.both("M", 5)
    await twins.ask("STREAM.MSG.DELETE.M", {"seq": 3})
    await twins.publish("o.a", 1)
    assert (await twins.both("M", 6))["deleted"] == [3]
    await twins.ask("STREAM.PURGE.M")
    await twins.publish("o.a", 1)
    assert (await twins.both("M", 7))["messages"] == 1
    assert (await twins.both("O", 7))["messages"] == 7


async def test_a_mirror_that_denies_deletes_refuses_them(twins: Twins) -> None:
    await twins.create(name="M", mirror={"name": "O"}, deny_delete=True, deny_purge=True)
    await twins.publish("o.a", 2)
    await twins.both("M", 2)
    assert "error" in await twins.ask("STREAM.MSG.DELETE.M", {"seq": 1})
    assert "error" in await twins.ask("STREAM.PURGE.M")


async def test_a_publish_to_a_mirror_is_not_stored(twins: Twins) -> None:
    await twins.create(name="M", mirror={"name": "O"})
    for asker in (twins.ours, twins.theirs):
        with pytest.raises(NoRespondersError):
            await asker.publish("M", b"data")


async def test_a_sealed_mirror_takes_no_more(twins: Twins) -> None:
    assert "error" in await twins.ask(
        "STREAM.CREATE.X", {"name": "X", "mirror": {"name": "O"}, "sealed": True}
    )
    await twins.create(name="M", mirror={"name": "O"})
    await twins.publish("o.a", 2)
    await twins.both("M", 2)
    await twins.ask("STREAM.UPDATE.M", {"name": "M", "mirror": {"name": "O"}, "sealed": True})
    await twins.publish("o.a", 1)
    await twins.create(name="LATER", mirror={"name": "O"})
    await twins.both("LATER", 3)
    await twins.both("M", 2)


async def test_a_promoted_mirror_continues_as_a_normal_stream(twins: Twins) -> None:
    await twins.create(name="M", mirror={"name": "O"})
    await twins.publish("o.a", 3)
    await twins.both("M", 3)
    assert "error" in await twins.ask("STREAM.UPDATE.M", {"name": "M", "subjects": ["o.>"]})
    assert "error" in await twins.ask("STREAM.UPDATE.M", {"name": "M", "mirror": {"name": "OTHER"}})
    answer = await twins.ask("STREAM.UPDATE.M", {"name": "M"})
    assert (answer["config"]["subjects"], answer.get("mirror")) == (["M"], None)
    await twins.publish("M")
    await twins.publish("o.a")
    assert (await twins.both("M", 4))["messages"] == 4
    assert "error" in await twins.ask("STREAM.UPDATE.M", {"name": "M", "mirror": {"name": "O"}})
