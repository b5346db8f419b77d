"""Every way in which an upstream can be stuck is shown as an error, logged once, and ends by itself."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from control.copiers import ROUNDS, Copier, copying, count_is, create, publish
from doors import Door, Wanted
from headwater.bus.connection import Connection
from headwater.bus.options import ConnectOptions
from headwater.errors import DiskError
from headwater.replication.work import Work
from headwater.upstreams.upstreams import Upstreams

pytestmark = pytest.mark.usefixtures("impatient")


async def fare(door: Door, target: str = "M") -> dict[str, Any]:
    info = await door.asker.ask(f"STREAM.INFO.{target}")
    found: dict[str, Any] = info["mirror"] if "mirror" in info else info["sources"][0]
    return found


async def until(
    door: Door, reached: Callable[[dict[str, Any]], bool], copier: Copier | None = None
) -> dict[str, Any]:
    """Return the status of the mirror once the condition holds; a copier runs at the same time."""
    shown: dict[str, Any] = {}
    for _ in range(ROUNDS):
        shown = await fare(door)
        if reached(shown):
            return shown
        if copier is not None:
            await copier.tick()
        await asyncio.sleep(0.02)
    raise AssertionError(f"it never came to that: {shown}")


def says(words: str) -> Callable[[dict[str, Any]], bool]:
    return lambda shown: words in shown.get("error", {}).get("description", "")


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a stall noticed after a moment."""
    monkeypatch.setattr("headwater.upstreams.upstreams.WATCH_S", 0.05)
    monkeypatch.setattr("headwater.upstreams.upstream.STALLED_NS", 1)


async def asked(door: Door, connection: Connection, name: str) -> tuple[Work, ...]:
    """Return what a replicator of this name is given."""
    return await Copier(door, connection).asked(name=name)


async def connected(door: Door) -> Connection:
    connection = Connection(ConnectOptions(servers=(door.client_url,), name="another replicator"))
    await connection.connect()
    return connection


async def behind(door: Door, count: int = 4, **config: Any) -> None:
    """Make a mirror that is behind its origin."""
    await create(door, name="O", subjects=["o"])
    await create(door, name="M", mirror={"name": "O"}, **config)
    await publish(door, "o", count)


@pytest.mark.usefixtures("soon")
async def test_the_absence_of_a_replicator(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await behind(door)
        unasked = says("no replicator has asked for work")
        shown = await until(door, lambda shown: unasked(shown) and shown["lag"] == 4)
        assert shown["headwater"]["phase"] == "stalled"
        assert "failing_since" in shown["headwater"]
        await copier.until(count_is(door, "M", 4))
        shown = await until(door, lambda shown: "error" not in shown, copier)
        assert "failing_since" not in shown["headwater"]


async def test_a_replicator_that_cannot_be_started_is_shown_before_anything_stalls(tmp_path: Path) -> None:
    problems = ["the replicator ended with status 3: no Java was found"]
    async with copying(tmp_path, Wanted(problem=lambda: problems[-1])) as (door, copier):
        await behind(door)
        shown = await until(door, says("no Java was found"))
        assert shown["headwater"]["phase"] == "stalled"
        problems.append("")
        await copier.until(count_is(door, "M", 4))
        await until(door, lambda shown: "error" not in shown, copier)


@pytest.mark.usefixtures("soon")
async def test_a_replicator_that_hangs(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await behind(door)
        connection = await connected(door)
        assert await asked(door, connection, "hangs")
        await until(door, says("was given work and has not returned it"))
        await copier.until(count_is(door, "M", 4))
        await connection.close()


@pytest.mark.usefixtures("soon")
async def test_a_replicator_that_is_killed_again_and_again(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await behind(door)
        connection = await connected(door)
        for life in range(5):
            assert await asked(door, connection, f"life {life}"), "each gets what the one before it had"
        await until(door, says("nothing was copied"))
        await copier.until(count_is(door, "M", 4))
        await connection.close()


@pytest.mark.parametrize("names", [["lives"], ["one", "two"]])
async def test_the_work_of_a_submitted_replicator_that_died_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    monkeypatch.setattr("doors.Upstreams", partial(Upstreams, is_single=False))
    monkeypatch.setattr("headwater.upstreams.upstream.LEASE_NS", 200_000_000)
    async with copying(tmp_path) as (door, _):
        await behind(door)
        connection = await connected(door)
        (lost,) = await asked(door, connection, "dies")
        works: tuple[Work, ...] = ()
        for number in range(ROUNDS):
            if works := await asked(door, connection, names[number % len(names)]):
                break
        assert [(w.start_seq, w.stop_seq) for w in works] == [(lost.start_seq, lost.stop_seq)]
        await connection.close()


async def test_an_origin_that_does_not_answer(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        external = {"api": "$JS.away.API", "deliver": ""}
        await create(door, name="M", mirror={"name": "O", "external": external})
        await copier.tick()
        shown = await until(door, lambda shown: "error" in shown, copier)
        assert "$JS.away.API" in shown["error"]["description"]
        assert shown["active"] == -1
        progress = shown["headwater"]
        assert (progress["phase"], progress["failures"] > 0) == ("retrying", True)
        assert progress["next_attempt"] > progress["failing_since"]
        assert not {"done", "behind", "caught_up_in", "origin_last_seq"} & set(progress), "nobody knows"


@pytest.mark.parametrize("kind", ["mirror", "sources"])
async def test_a_target_that_is_full(tmp_path: Path, kind: str) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        upstream = {"mirror": {"name": "O"}} if kind == "mirror" else {"sources": [{"name": "O"}]}
        await create(door, name="M", max_msgs=3, discard="new", **upstream)
        await publish(door, "o", 5)
        await until(door, lambda shown: says("full")(shown) and shown["lag"] == 2, copier)
        state = await door.domain.stream("M").reading.state()
        assert (state.messages, state.last_seq) == (3, 3)
        await door.asker.ask("STREAM.PURGE.M")
        await until(door, lambda shown: not shown["lag"] and "error" not in shown, copier)
        assert (await door.domain.stream("M").reading.state()).messages == 2


async def test_a_target_that_is_sealed(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await behind(door)
        await copier.until(count_is(door, "M", 4))
        sealed = {"name": "M", "mirror": {"name": "O"}, "sealed": True}
        assert "error" not in await door.asker.ask("STREAM.UPDATE.M", sealed)
        await publish(door, "o", 1)
        shown = await until(door, lambda shown: says("sealed")(shown) and shown["lag"] == 1, copier)
        assert shown["headwater"]["phase"] == "retrying"
        assert (await door.domain.stream("M").reading.state()).messages == 4


async def test_a_target_whose_disk_is_full_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with copying(tmp_path) as (door, copier):
        await behind(door)
        target = door.domain.stream("M")

        async def full(*given: Any, **named: Any) -> int:
            raise DiskError(target.directory, "write", errno.ENOSPC)

        caplog.set_level(logging.INFO)
        with monkeypatch.context() as patch:
            patch.setattr(target.replica, "take", full)
            patch.setattr(target.replica, "adopt", full)
            await until(door, lambda shown: shown["headwater"].get("failures", 0) >= 2, copier)
            assert says("the disk is full")(await fare(door))
            logged = [record for record in caplog.records if "the disk is full" in record.getMessage()]
            assert len(logged) == 1, "not at every attempt"
        await copier.until(count_is(door, "M", 4))
        await until(door, lambda shown: "error" not in shown, copier)
        assert any("copying again" in record.getMessage() for record in caplog.records)


async def test_copying_does_not_continue_from_an_origin_that_lost_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.stream.stream.Stream.identity", property(lambda stream: "the same"))
    async with copying(tmp_path) as (door, copier):
        await behind(door, 5)
        await copier.until(count_is(door, "M", 5))
        await door.asker.ask("STREAM.DELETE.O")
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 3)
        shown = await until(door, says("has it lost messages"), copier)
        assert "ends at 3, before 5" in shown["error"]["description"]
        assert (await door.domain.stream("M").reading.state()).messages == 5


async def test_lag_is_never_old_news(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await behind(door)
        await copier.until(count_is(door, "M", 4))
        await copier.tick()
        await publish(door, "o", 3)
        await until(door, lambda shown: shown["lag"] == 3)
