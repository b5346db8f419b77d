"""A stream that does not answer delays no other, and is shown as missing until it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doors import Asker, Door, Wanted, connected, opened_door
from headwater.control import domain as domain_module
from headwater.control import late_streams
from hung_streams import endless_rebuild, hung_disk
from waits import until

FAULTS = [hung_disk, endless_rebuild]
BY_FAULT = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a moment only, as the streams of these tests answer at once or never."""
    monkeypatch.setattr(late_streams, "ANSWER_WITHIN_S", 0.3)


async def make(door: Door, *names: str, **config: Any) -> None:
    for name in names:
        made = await door.asker.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [name], **config})
        assert "error" not in made
        assert (await door.asker.publish(name, b"first"))["seq"] == 1


async def stick(door: Door, name: str, hung: Any) -> None:
    """Publish what hangs; return once it does."""
    door.asker.connection.publish(name.encode(), b"second")
    await until(lambda: hung.count)


def named(listed: dict[str, Any]) -> list[str]:
    return [info["config"]["name"] for info in listed["streams"]]


@BY_FAULT
async def test_the_account_and_its_lists_answer_while_a_stream_is_stuck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[..., Any]
) -> None:
    async with opened_door(tmp_path) as door:
        await make(door, "A", "B", "C")
        ask = door.asker
        whole = await ask.ask("INFO")
        others = [Asker(await connected(door.client_url)) for _ in range(3)]
        with fault(door.domain.stream("B"), monkeypatch) as hung:
            await stick(door, "B", hung)
            # More at once than a lane has room for, from several clients.
            asked = [client.ask("STREAM.LIST") for client in others for _ in range(10)]
            for listed in await asyncio.gather(*asked):
                assert (named(listed), listed["missing"]) == (["A", "C"], ["B"])
                assert listed["total"] == 3
            assert (await ask.ask("STREAM.NAMES"))["streams"] == ["A", "B", "C"]
            shown = await ask.ask("INFO")
            assert (shown["streams"], shown["storage"]) == (3, whole["storage"])
            assert (await ask.ask("STREAM.INFO.A"))["state"]["messages"] == 1
            assert (await ask.publish("C", b"more"))["seq"] == 2
            hung.heal()
            await until(lambda: not door.domain.late._owed)
        listed = await ask.ask("STREAM.LIST")
        assert (named(listed), "missing" in listed) == (["A", "B", "C"], False)
        expected = 2 if fault is hung_disk else 1
        assert [info["state"]["messages"] for info in listed["streams"]] == [1, expected, 2]
        for client in others:
            await client.connection.close()


async def test_one_that_hangs_is_not_waited_for_again_before_it_has_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened_door(tmp_path) as door:
        await make(door, "A", "B", "C")
        with hung_disk(door.domain.stream("B"), monkeypatch) as hung:
            await stick(door, "B", hung)
            assert (await door.asker.ask("STREAM.LIST"))["missing"] == ["B"]
            monkeypatch.setattr(late_streams, "ANSWER_WITHIN_S", 3600.0)
            assert (await door.asker.ask("STREAM.LIST"))["missing"] == ["B"], "at once"
            assert (await door.asker.ask("INFO"))["streams"] == 3


@BY_FAULT
async def test_what_is_asked_of_a_stuck_stream_is_answered_in_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[..., Any]
) -> None:
    async with opened_door(tmp_path) as door:
        await make(door, "A", "B", allow_direct=True)
        with fault(door.domain.stream("B"), monkeypatch) as hung:
            await stick(door, "B", hung)
            info = await door.asker.ask("STREAM.INFO.B")
            assert (info["error"]["code"], info["error"]["err_code"]) == (503, 10008)
            # Requests that change the stream may hang; what waits behind them is refused.
            purges = [asyncio.create_task(door.asker.ask("STREAM.PURGE.B")) for _ in range(12)]
            done, _ = await asyncio.wait(purges, return_when=asyncio.FIRST_COMPLETED)
            assert {task.result()["error"]["code"] for task in done} <= {500, 503}
            assert (await door.asker.ask("STREAM.PURGE.A"))["purged"] == 1
            hung.heal()
            await asyncio.gather(*purges)
        await until(lambda: door.domain.stream("B")._committer.is_idle)
        assert "error" not in await door.asker.ask("STREAM.INFO.B")


async def test_a_failed_stream_is_listed_as_offline_and_others_are_not_affected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened_door(tmp_path) as door:
        await make(door, "A", "B", "C")
        failed = door.domain.stream("B")

        def bug(*given: Any) -> None:
            raise ValueError("a bug")

        monkeypatch.setattr(failed._committer, "_write", bug)
        answer = await door.asker.publish("B", b"second")
        assert answer["error"]["err_code"] == 10077
        listed = await door.asker.ask("STREAM.LIST")
        assert (named(listed), listed["missing"]) == (["A", "C"], ["B"])
        assert "a bug" in listed["offline"]["B"]
        assert (await door.asker.ask("INFO"))["streams"] == 3
        monkeypatch.undo()
        failed._committer.close = lambda: asyncio.sleep(0)  # type: ignore[method-assign]


async def test_a_stuck_stream_can_be_deleted_and_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(domain_module, "CLOSE_WITHIN_S", 0.3)
    async with opened_door(tmp_path, Wanted()) as door:
        await make(door, "A", "B")
        with hung_disk(door.domain.stream("B"), monkeypatch) as hung:
            await stick(door, "B", hung)
            assert (await door.asker.ask("STREAM.DELETE.B"))["success"]
            assert (await door.asker.ask("STREAM.NAMES"))["streams"] == ["A"]
            await make(door, "B")
            assert (await door.asker.ask("STREAM.INFO.B"))["state"]["messages"] == 1
            hung.heal()
            await until(lambda: not door.domain._closings)
            await until(lambda: not door.domain._removals)
        assert (await door.asker.publish("B", b"second"))["seq"] == 2
