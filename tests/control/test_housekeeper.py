"""Streams are expired, folded and compacted while they run; trouble with one is no trouble for the others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headwater.control import housekeeper as housekeeper_module
from headwater.control.housekeeper import Housekeeper
from headwater.errors import Error
from headwater.stream.stream import Stream
from sinks import until
from stream.streams import SECOND, Workshop, config_of, everything, publish

SOON: dict[str, Any] = {"fold_messages": 1, "fold_interval_s": 0.01, "compact_interval_s": 0.01}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeper_module, "EXPIRE_TICK_S", 0.005)


def looking_after(workshop: Workshop, *streams: Stream) -> Housekeeper:
    housekeeper = Housekeeper(workshop.services.settings, workshop.clock)
    for stream in streams:
        housekeeper.on_opened(stream)
    housekeeper.start()
    return housekeeper


def files(stream: Stream) -> int:
    return len(stream._store.table.files)


async def test_old_messages_go_and_the_others_are_folded(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, **SOON)
    async with workshop.stream(max_age=10 * SECOND) as stream:
        housekeeper = looking_after(workshop, stream)
        await publish(stream, (b"a", b"old"))
        workshop.clock.advance(9 * SECOND)
        await publish(stream, (b"a", b"young"))
        await until(lambda: len(stream._store.head) == 0 and files(stream))
        assert len(await everything(stream)) == 2
        workshop.clock.advance(2 * SECOND)
        await until(lambda: stream._store.ledger.messages == 1)
        assert [message.data for message in await everything(stream)] == [b"young"]
        await housekeeper.stop()


async def test_small_files_are_merged_and_replaced_ones_unlinked(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, **SOON)
    async with workshop.stream() as stream:
        for number in range(12):
            await publish(stream, (b"a", b"%d" % number))
            await stream.folder.fold()
        housekeeper = looking_after(workshop, stream)
        await until(lambda: files(stream) < 12)
        table = tmp_path / "S" / "table"
        await until(lambda: len(list(table.glob("base_seq=*/*.parquet"))) == files(stream))
        await housekeeper.stop()
        assert len(await everything(stream)) == 12


async def test_a_stream_in_trouble_keeps_no_other_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = Workshop(tmp_path, **SOON)
    async with workshop.stream(name="ILL") as ill, workshop.stream(name="WELL", max_age=SECOND) as well:

        async def fail(*args: object) -> int:
            raise Error("the disk is ill")

        async def break_down(*args: object) -> int:
            raise ZeroDivisionError

        def be_wrong() -> int:
            raise ZeroDivisionError

        monkeypatch.setattr(ill, "expire", break_down)
        monkeypatch.setattr(ill, "next_expiry_ns", lambda: 0)
        monkeypatch.setattr(ill.folder, "fold", fail)
        monkeypatch.setattr(ill.folder, "tidy", break_down)
        await publish(ill, (b"a", b""))
        await publish(well, (b"a", b""))
        housekeeper = looking_after(workshop, ill, well)
        await until(lambda: files(well))
        monkeypatch.setattr(ill, "next_expiry_ns", be_wrong)
        await asyncio.sleep(0.02)
        monkeypatch.setattr(ill, "next_expiry_ns", lambda: None)
        workshop.clock.advance(2 * SECOND)
        await until(lambda: not well._store.ledger.messages)
        await housekeeper.stop()


async def test_a_stream_closed_while_its_turn_comes_holds_up_nobody(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, **SOON)
    async with workshop.stream(name="STAYS") as stays:
        housekeeper = looking_after(workshop, stays)
        for number in range(5):
            goes = await workshop.open(config_of(name=f"GOES{number}"))
            housekeeper.on_opened(goes)
            await publish(goes, (b"a", b""))
            await asyncio.sleep(0.004 * number)
            housekeeper.on_closed(goes)
            await goes.close()
        await publish(stays, (b"a", b""))
        await until(lambda: files(stays))
        await housekeeper.stop()


async def test_stopping_lets_a_fold_under_way_end(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, **SOON)
    async with workshop.stream() as stream:
        began, ended = asyncio.Event(), False
        fold = stream.folder.fold

        async def slow_fold() -> None:
            nonlocal ended
            began.set()
            await asyncio.sleep(0.05)
            await fold()
            ended = True

        stream.folder.fold = slow_fold  # type: ignore[method-assign, assignment]
        await publish(stream, (b"a", b""))
        workshop.clock.advance(SECOND)
        housekeeper = looking_after(workshop, stream)
        await began.wait()
        await housekeeper.stop()
        assert ended
