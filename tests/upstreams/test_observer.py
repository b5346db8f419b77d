"""A look measures what is left to copy, and shows what fails without delaying others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from control.copiers import ROUNDS, copying, count_is, create, publish
from headwater.bus.connection import Connection
from headwater.wire.frames import Frame


async def test_a_look_that_takes_long_does_not_tell_of_a_lag_that_was_copied_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 7)
        await create(door, name="M", mirror={"name": "O"})
        (upstream,) = door.upstreams.of("M")
        measured, copied = asyncio.Event(), asyncio.Event()
        lag = door.upstreams._observer._lag.measure

        async def late(*arguments: Any) -> int:
            found = await lag(*arguments)
            measured.set()
            await copied.wait()
            return found

        with monkeypatch.context() as patch:
            patch.setattr(door.upstreams._observer._lag, "measure", late)
            looking = asyncio.create_task(door.upstreams._observer.check(upstream, 0))
            await measured.wait()
        await copier.until(count_is(door, "M", 7))
        for _ in range(ROUNDS):
            if upstream not in door.upstreams._pending:
                break
            await copier.tick()
        copied.set()
        await looking
        assert (await door.asker.ask("STREAM.INFO.M"))["mirror"]["lag"] == 0


async def test_lag_and_a_stall_are_seen_without_a_replicator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.upstreams.upstreams.WATCH_S", 0.05)
    monkeypatch.setattr("headwater.upstreams.upstream.STALLED_NS", 1)
    async with copying(tmp_path) as (door, _):
        await create(door, name="O", subjects=["o"])
        await create(door, name="M", mirror={"name": "O"})
        await publish(door, "o", 4)
        mirror: dict[str, Any] = {}
        for _ in range(ROUNDS):
            mirror = (await door.asker.ask("STREAM.INFO.M"))["mirror"]
            if "error" in mirror and mirror["lag"] == 4:
                break
            await asyncio.sleep(0.02)
        assert mirror["lag"] == 4
        assert "nothing was copied" in mirror["error"]["description"]


class Odd:
    """Answers every request with the same bytes, as something might that is no JetStream."""

    def __init__(self, connection: Connection, data: bytes) -> None:
        self.items: list[Frame] = []
        self._connection = connection
        self._data = data

    def flush(self) -> None:
        """Answer what was asked."""
        for frame in self.items:
            self._connection.publish(frame[1], self._data)
        self.items.clear()


@pytest.mark.parametrize("data", [b"nonsense", b"[]", b"{}", b'{"error": 1}', b'{"state": {}, "config": {}}'])
async def test_an_origin_that_answers_nonsense_shows_it_and_delays_no_other(
    tmp_path: Path, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with copying(tmp_path) as (door, copier):
        odd = Odd(door.asker.connection, data)
        door.asker.connection.subscribe(b"$JS.odd.API.>", odd)
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 5)
        await create(door, name="E", sources=[{"name": "X", "external": {"api": "$JS.odd.API"}}])
        await create(door, name="S", sources=[{"name": "O"}])
        await copier.until(count_is(door, "S", 5))
        info = await door.asker.ask("STREAM.INFO.E")
        assert info["sources"][0]["error"]["description"]
    assert "never retrieved" not in caplog.text


async def test_an_origin_that_has_not_grown_is_not_looked_at_again_for_each_info(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.upstreams.upstreams.WATCH_S", 3600)
    monkeypatch.setattr("headwater.upstreams.upstreams.FRESH_NS", 0)
    monkeypatch.setattr("headwater.upstreams.upstreams.QUIET_FRESH_NS", 3600 * 10**9)
    async with copying(tmp_path) as (door, _):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 4)
        await create(door, name="M", mirror={"name": "O"})
        (upstream,) = door.upstreams.of("M")
        observer = door.upstreams._observer
        await observer.check(upstream, 0)
        looked: list[int] = []
        look = observer.look

        async def counted(*arguments: Any) -> Any:
            looked.append(1)
            return await look(*arguments)

        monkeypatch.setattr(observer, "look", counted)
        for _ in range(3):
            assert (await door.asker.ask("STREAM.INFO.M"))["mirror"]["lag"] == 4
        assert not looked
        await publish(door, "o", 1)
        assert (await door.asker.ask("STREAM.INFO.M"))["mirror"]["lag"] == 5
        assert looked
