"""A store is checked while an engine serves it: no race is reported as damage, and damage is found."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from doors import Asker, connected
from engines import RunningEngine, engine
from headwater.errors import Error
from headwater.store.online import NOT_ONLINE, verify_online
from headwater.store.verify import Report
from store import stores

PASSES = 6
BUSY = ("--fold-interval-s", "0.1", "--erase-grace-s", "0", "--erase-interval-s", "0.1")
QUIET = ("--fold-interval-s", "3600")


async def check(store: Path, only: str = "") -> Report:
    return await asyncio.to_thread(verify_online, store, lambda said: None, only)


def said(report: Report) -> list[str]:
    return [str(found) for found in report.findings]


@asynccontextmanager
async def asker(running: RunningEngine) -> AsyncIterator[Asker]:
    connection = await connected(running.client_url)
    try:
        yield Asker(connection)
    finally:
        await connection.close()


async def made(ask: Asker, name: str, **fields: object) -> None:
    answer = await ask.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], **fields})
    assert "error" not in answer, answer


async def published(ask: Asker, name: str, count: int) -> None:
    sent = [ask.publish(f"{name}.{number % 5}", b"x" * 700) for number in range(count)]
    await asyncio.gather(*sent)


async def test_a_busy_store_has_nothing_wrong_in_every_pass(tmp_path: Path) -> None:
    stopping = asyncio.Event()
    counts = {"published": 0, "made": 0}

    async def publish(ask: Asker, name: str) -> None:
        while not stopping.is_set():
            await published(ask, name, 50)
            counts["published"] += 50
            last = (await ask.ask(f"STREAM.INFO.{name}"))["state"]["last_seq"]
            for seq in range(last - 20, last, 3):
                await ask.ask(f"STREAM.MSG.DELETE.{name}", {"seq": seq})

    async def create_and_delete(ask: Asker) -> None:
        while not stopping.is_set():
            await made(ask, "BRIEF")
            await ask.ask("CONSUMER.DURABLE.CREATE.BRIEF.reader", consumer("BRIEF"))
            await published(ask, "BRIEF", 5)
            await ask.ask("STREAM.DELETE.BRIEF")
            counts["made"] += 1

    def consumer(stream: str) -> dict[str, object]:
        config = {"durable_name": "reader", "ack_policy": "explicit"}
        return {"stream_name": stream, "config": config}

    async with engine(tmp_path, *BUSY) as running, asker(running) as ask:
        await made(ask, "BUSY", max_msgs=800)
        await made(ask, "LATER")
        await made(ask, "COPY", subjects=[], sources=[{"name": "LATER"}])
        work = [publish(ask, "BUSY"), publish(ask, "LATER"), create_and_delete(ask)]
        tasks = [asyncio.create_task(each) for each in work]
        try:
            for number in range(PASSES):
                report = await check(running.store)
                assert said(report) == [], number
                assert report.unchecked == list(NOT_ONLINE)
                assert report.streams >= 3
        finally:
            stopping.set()
            await asyncio.gather(*tasks)
    print(f"checked {PASSES} times beside {counts}")
    assert counts["published"]
    assert counts["made"]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[RunningEngine]:
    """Run an engine on a store with data files and with two log segments."""
    async with engine(tmp_path, "--fold-interval-s", "0.1") as first, asker(first) as ask:
        await made(ask, "ORDERS")
        await published(ask, "ORDERS", 100)
        table = first.store / "$G" / "ORDERS" / "table"
        while not list(table.glob("base_seq=*/**/*.parquet")):
            await asyncio.sleep(0.05)
    running = RunningEngine(tmp_path, QUIET)
    try:
        for _ in range(2):
            await running.kill()
            await running.start()
            async with asker(running) as ask:
                for _ in range(3):
                    await published(ask, "ORDERS", 20)
        yield running
    finally:
        await running.stop()


async def flipped(served: RunningEngine, path: Path, at: int | None = None) -> list[tuple[str, str]]:
    """Return kind and place of what is found while a bit of a file is flipped."""
    whole = path.read_bytes()
    stores.flip(path, at)
    report = await check(served.store, "$G/ORDERS")
    path.write_bytes(whole)
    assert {found.stream for found in report.problems} <= {"$G/ORDERS"}
    return [(str(found.kind), found.where) for found in report.problems]


async def test_a_flipped_bit_is_found_in_each_kind_of_file(served: RunningEngine) -> None:
    assert said(await check(served.store)) == []
    home = served.store / "$G" / "ORDERS"
    data, commit = stores.data_files(served.store)[0], sorted((home / "table/_delta_log").glob("*.json"))[1]
    assert await flipped(served, data) == [("data", str(data))]
    assert await flipped(served, commit) == [("table", str(commit))]
    for name, kind in (
        ("checkpoint", "checkpoint"),
        ("declared.json", "declaration"),
        ("log.newest", "log"),
    ):
        assert await flipped(served, home / name) == [(kind, str(home / name))]
    *_, older, newest = sorted((home / "log").iterdir())
    for segment, at in ((older, None), (newest, 200)):
        ((kind, where),) = await flipped(served, segment, at)
        assert kind == "log"
        assert where.startswith(f"{segment}, byte ")
    kept = newest.rename(home / "kept")
    lost = await check(served.store, "$G/ORDERS")
    kept.rename(newest)
    assert [(str(found.kind), found.where) for found in lost.problems] == [("log", f"{newest}, byte 0")]
    # A record at the end may be one that is being written.
    assert await flipped(served, newest, newest.stat().st_size - 10) == []
    assert said(await check(served.store)) == []


async def test_a_database_that_is_locked_is_named_as_not_checked(tmp_path: Path) -> None:
    await stores.make(tmp_path)
    db = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)
    db.execute("PRAGMA locking_mode=EXCLUSIVE")
    db.execute("BEGIN IMMEDIATE")
    report = await check(tmp_path)
    db.close()
    assert report.problems == []
    assert any(line.startswith("catalog.db: ") for line in report.unchecked)


async def test_a_check_online_changes_no_file(tmp_path: Path) -> None:
    await stores.make(tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert said(await check(tmp_path)) == []
    after = {
        p: p.read_bytes()
        for p in tmp_path.rglob("*")
        if p.is_file() and not p.name.endswith(("-shm", "-wal"))
    }
    assert after == before


async def test_a_stream_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    await stores.make(tmp_path)
    with pytest.raises(Error, match="there is no stream"):
        await check(tmp_path, "$G/NONE")
