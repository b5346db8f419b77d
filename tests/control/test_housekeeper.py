"""Streams are kept in order while they run, and trouble with one does not keep the others waiting."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headwater.control import housekeeper as module
from headwater.control.housekeeper import Housekeeper
from headwater.errors import DiskError, Error
from headwater.stream.folder import Fold
from headwater.stream.store import FOLD
from headwater.stream.stream import Stream
from headwater.table.table import Table
from stream.streams import SECOND, Workshop, config_of, everything, publish
from waits import until


@asynccontextmanager
async def kept(workshop: Workshop, *streams: Stream) -> AsyncIterator[Housekeeper]:
    """Have streams looked after for the length of a block, and close them afterwards."""
    housekeeper = Housekeeper(workshop.services.settings, workshop.clock)
    for stream in streams:
        housekeeper.on_opened(stream)
    housekeeper.start()
    try:
        yield housekeeper
    finally:
        await housekeeper.stop()
        for stream in streams:
            await stream.close()


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXPIRE_TICK_S", 0.005)


def workshop_of(tmp_path: Path, compact_interval_s: float = 0.02) -> Workshop:
    return Workshop(tmp_path, fold_interval_s=0.02, compact_interval_s=compact_interval_s)


def read(path: Path) -> bytes:
    """Return the content of a file; nothing if it was unlinked."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


async def test_messages_leave_when_their_time_has_come_and_not_before(tmp_path: Path) -> None:
    workshop = workshop_of(tmp_path)
    stream = await workshop.open(config_of(max_age=10 * SECOND))
    await publish(stream, (b"a", b"1"))
    workshop.clock.advance(9 * SECOND)
    async with kept(workshop, stream):
        await asyncio.sleep(0.05)
        assert stream.reading.is_live(1)
        workshop.clock.advance(1 * SECOND)
        await until(lambda: not stream.reading.is_live(1))
    workshop.close()


async def test_old_messages_are_folded_although_they_are_few(tmp_path: Path) -> None:
    workshop = workshop_of(tmp_path)
    stream = await workshop.open(config_of())
    await publish(stream, (b"a", b"1"), (b"a", b"2"))
    async with kept(workshop, stream):
        workshop.clock.advance(SECOND)
        await until(lambda: stream._store.table.transaction(FOLD) == 2)
        await until(lambda: not len(stream._store.head))
    workshop.close()


async def test_removed_messages_are_erased_from_the_table(tmp_path: Path) -> None:
    workshop = workshop_of(tmp_path)
    stream = await workshop.open(config_of())
    await publish(stream, *[(b"a", b"secret %d" % n) for n in range(5)])
    await stream.folder.fold()
    await stream.retention.remove(3)

    def holds(what: bytes) -> bool:
        return any(what in read(path) for path in (tmp_path / "S" / "table").rglob("*.parquet"))

    assert holds(b"secret 2")
    async with kept(workshop, stream):
        await until(lambda: not holds(b"secret 2"))
        assert holds(b"secret 3")
    workshop.close()


@pytest.mark.parametrize("error", [Error("the disk refuses"), ValueError("a bug")])
async def test_a_failing_stream_is_reported_and_the_others_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    workshop = workshop_of(tmp_path)
    troubled = await workshop.open(config_of(name="TROUBLED", max_age=SECOND))
    healthy = await workshop.open(config_of(name="HEALTHY", max_age=SECOND))

    async def fail(*_: object) -> None:
        raise error

    for work in (troubled.folder.fold, troubled.folder.tidy):
        monkeypatch.setattr(troubled.folder, work.__name__, fail)
    monkeypatch.setattr(troubled.retention, "expire", fail)
    for stream in (troubled, healthy):
        await publish(stream, (b"a", b"1"))
    async with kept(workshop, troubled, healthy):
        workshop.clock.advance(SECOND // 2)
        await until(lambda: healthy._store.table.transaction(FOLD) == 1)
        workshop.clock.advance(SECOND)
        await until(lambda: not healthy.reading.is_live(1))
        await until(lambda: "stream TROUBLED: " in caplog.text)
        await publish(healthy, (b"a", b"2"))
        workshop.clock.advance(SECOND // 2)
        await until(lambda: healthy._store.table.transaction(FOLD) == 2)
    assert "HEALTHY" not in caplog.text
    workshop.close()


async def test_a_stop_lets_the_fold_under_way_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workshop = workshop_of(tmp_path)
    stream = await workshop.open(config_of())
    await publish(stream, (b"a", b"1"))
    fold, steps = stream.folder.fold, []
    begun, may_go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        begun.set()
        await may_go_on.wait()
        await fold()
        steps.append("folded")

    monkeypatch.setattr(stream.folder, "fold", slow)
    housekeeper = Housekeeper(workshop.services.settings, workshop.clock)
    housekeeper.on_opened(stream)
    housekeeper.start()
    workshop.clock.advance(SECOND)
    await begun.wait()
    stopping = asyncio.create_task(housekeeper.stop())
    await asyncio.sleep(0)
    may_go_on.set()
    await stopping
    assert steps == ["folded"]
    await stream.close()
    workshop.close()


async def test_a_stream_that_was_closed_is_left_alone(tmp_path: Path) -> None:
    workshop = workshop_of(tmp_path)
    gone = await workshop.open(config_of(name="GONE", max_age=SECOND))
    stays = await workshop.open(config_of(name="STAYS", max_age=SECOND))
    for stream in (gone, stays):
        await publish(stream, (b"a", b"1"))
    async with kept(workshop, gone, stays) as housekeeper:
        housekeeper.on_closed(gone)
        housekeeper.on_closed(gone)
        workshop.clock.advance(2 * SECOND)
        await until(lambda: not stays.reading.is_live(1))
        assert gone.reading.is_live(1)
    workshop.close()


async def test_a_stream_deleted_while_its_fold_waited_is_not_folded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FOLDS_AT_ONCE", 1)
    workshop = workshop_of(tmp_path, compact_interval_s=60.0)
    streams = [await workshop.open(config_of(name=name)) for name in ("FIRST", "SECOND")]
    folded: list[str] = []
    begun, may_go_on = asyncio.Event(), asyncio.Event()
    fold = Fold.fold

    async def slow(folder: Fold) -> None:
        folded.append(folder._store.config.name)
        begun.set()
        await may_go_on.wait()
        await fold(folder)

    monkeypatch.setattr(Fold, "fold", slow)
    for stream in streams:
        await publish(stream, (b"a", b"1"))
    async with kept(workshop, *streams) as housekeeper:
        workshop.clock.advance(SECOND)
        await begun.wait()
        assert folded == ["FIRST"], "one at a time"
        housekeeper.on_closed(streams[1])
        may_go_on.set()
        await until(lambda: streams[0]._store.table.transaction(FOLD) == 1)
        await asyncio.sleep(0.05)
    assert folded == ["FIRST"]
    workshop.close()


async def test_small_files_are_merged_and_replaced_ones_unlinked(tmp_path: Path) -> None:
    workshop = workshop_of(tmp_path)
    stream = await workshop.open(config_of())
    for number in range(12):
        await publish(stream, (b"a", b"%d" % number))
        await stream.folder.fold()
    table = tmp_path / "S" / "table"
    async with kept(workshop, stream):
        await until(lambda: len(stream._store.table.files) < 12)
        await until(
            lambda: len(list(table.glob("base_seq=*/**/*.parquet"))) == len(stream._store.table.files)
        )
        assert len(await everything(stream)) == 12
    workshop.close()


async def test_a_mistake_in_the_rounds_themselves_does_not_end_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    workshop = workshop_of(tmp_path)
    stream = await workshop.open(config_of(max_age=SECOND))
    await publish(stream, (b"a", b""))

    def be_wrong() -> int:
        raise ZeroDivisionError

    with monkeypatch.context() as wrong:
        wrong.setattr(stream.retention, "next_expiry_ns", be_wrong)
        housekeeping = kept(workshop, stream)
        await housekeeping.__aenter__()
        await until(lambda: "housekeeping failed" in caplog.text)
    workshop.clock.advance(2 * SECOND)
    await until(lambda: not stream.reading.is_live(1))
    await housekeeping.__aexit__(None, None, None)
    workshop.close()


async def test_created_and_deleted_streams_delay_no_other(tmp_path: Path) -> None:
    workshop = workshop_of(tmp_path)
    stays = await workshop.open(config_of(name="STAYS"))
    async with kept(workshop, stays) as housekeeper:
        for number in range(5):
            goes = await workshop.open(config_of(name=f"GOES{number}"))
            housekeeper.on_opened(goes)
            await publish(goes, (b"a", b""))
            workshop.clock.advance(SECOND)
            await asyncio.sleep(0.004 * number)
            housekeeper.on_closed(goes)
            await goes.close()
        await publish(stays, (b"a", b""))
        workshop.clock.advance(SECOND)
        await until(lambda: stays._store.table.files)
    workshop.close()


async def test_streams_that_are_stuck_delay_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_TURN_S", 0.05)
    workshop = workshop_of(tmp_path)
    config = {"max_age": SECOND}
    stuck = [
        await workshop.open(config_of(name=f"STUCK{n}", **config)) for n in range(module.FOLDS_AT_ONCE + 1)
    ]
    healthy = await workshop.open(config_of(name="HEALTHY", **config))
    go_on = asyncio.Event()
    calls: list[str] = []

    async def hang(*_: object) -> None:
        calls.append("hangs")
        await go_on.wait()

    for stream in stuck:
        for work in ("fold", "tidy"):
            monkeypatch.setattr(stream.folder, work, hang)
        monkeypatch.setattr(stream.retention, "expire", hang)
    for stream in (*stuck, healthy):
        await publish(stream, (b"a", b"1"))
    async with kept(workshop, *stuck, healthy):
        for seq in range(2, 6):
            workshop.clock.advance(SECOND // 2)
            await until(lambda: healthy._store.table.transaction(FOLD) == seq - 1)  # noqa: B023
            workshop.clock.advance(SECOND)
            await until(lambda: not healthy.reading.is_live(seq - 1))  # noqa: B023
            await publish(healthy, (b"a", b"%d" % seq))
        await until(lambda: len(calls) == 3 * len(stuck), "each hangs once at each kind of work")
        go_on.set()
    workshop.close()


async def test_a_stop_does_not_wait_for_what_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "STOP_WITHIN_S", 0.05)
    workshop = workshop_of(tmp_path)
    stream = await workshop.open(config_of())
    await publish(stream, (b"a", b"1"))
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        begun.set()
        await go_on.wait()

    monkeypatch.setattr(stream.folder, "fold", hang)
    async with kept(workshop, stream):
        workshop.clock.advance(SECOND)
        await begun.wait()
    assert "stream S: fold has not ended" in caplog.text
    go_on.set()
    await asyncio.sleep(0)
    workshop.close()


class Looks:
    """Counts how often a stream is looked at."""

    def __init__(self, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for owner, name in (
            (stream.retention, "next_expiry_ns"),
            (stream.folder, "due"),
            (stream.folder, "tidy"),
        ):
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*given: object) -> Any:
            self.count += 1
            return call(*given)

        return counting


async def rests(looks: Looks) -> None:
    """Return once the housekeeper has not visited a stream for several rounds of each kind."""

    async def unchanged() -> bool:
        before = looks.count
        await asyncio.sleep(0.2)
        return looks.count == before

    await until(unchanged)


async def test_an_idle_stream_is_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workshop = Workshop(tmp_path, fold_interval_s=0.02, compact_interval_s=0.02, erase_interval_s=None)
    stream = await workshop.open(config_of(max_age=1000 * SECOND))
    looks = Looks(stream, monkeypatch)
    async with kept(workshop, stream):
        await rests(looks)
        await publish(stream, (b"a", b"1"), (b"a", b"2"))
        workshop.clock.advance(SECOND)
        await until(lambda: not len(stream._store.head))
        await stream.retention.remove(1)
        await rests(looks)
        assert looks.count
        before = looks.count
        await publish(stream, (b"a", b"3"))
        await until(lambda: looks.count > before)
        workshop.clock.advance(SECOND)
        await rests(looks)
        workshop.clock.advance(1000 * SECOND)
        await until(lambda: not stream.reading.is_live(3))
    workshop.close()


async def test_an_idle_stream_is_checked_when_its_limits_change(tmp_path: Path) -> None:
    workshop = workshop_of(tmp_path)
    config = config_of()
    stream = await workshop.open(config)
    await publish(stream, (b"a", b"1"))
    async with kept(workshop, stream) as housekeeper:
        workshop.clock.advance(100 * SECOND)
        await until(lambda: not len(stream._store.head))
        await stream.reconfigure(config_of(max_age=50 * SECOND))
        housekeeper.on_changed(stream, config)
        await until(lambda: not stream.reading.is_live(1))
    workshop.close()


async def test_files_that_a_crash_left_are_unlinked_in_an_idle_stream(
    tmp_path: Path,
) -> None:
    workshop = workshop_of(tmp_path)
    stream = await workshop.open(config_of())
    await publish(stream, (b"a", b"1"))
    await stream.folder.fold()
    await stream.close()
    (kept_file,) = (tmp_path / "S" / "table").rglob("*.parquet")
    orphan = kept_file.with_name(f"x{kept_file.name}")
    orphan.write_bytes(kept_file.read_bytes())
    stream = await workshop.open(config_of())
    async with kept(workshop, stream):
        await until(lambda: not orphan.exists())
        assert kept_file.exists()
    workshop.close()


async def test_a_failing_stream_is_checked_until_it_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = workshop_of(tmp_path)
    stream = await workshop.open(config_of(max_age=SECOND))
    await publish(stream, (b"a", b"1"))
    tried = 0

    async def refuse(now_ns: int) -> int:
        nonlocal tried
        tried += 1
        raise Error("the disk refuses")

    async with kept(workshop, stream):
        with monkeypatch.context() as patch:
            patch.setattr(stream.retention, "expire", refuse)
            workshop.clock.advance(2 * SECOND)
            await until(lambda: tried > 2)
        await until(lambda: not stream.reading.is_live(1))
    workshop.close()


async def test_a_disk_that_is_full_is_logged_once_and_shown_until_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    workshop = workshop_of(tmp_path)
    stream = await workshop.open(config_of())
    await publish(stream, (b"a", b"1"))
    attempts = 0

    def full(table: Table, *given: Any, **named: Any) -> None:
        nonlocal attempts
        attempts += 1
        raise DiskError(tmp_path / "table", "write", errno.ENOSPC)

    async with kept(workshop, stream):
        with monkeypatch.context() as patch:
            patch.setattr(Table, "commit", full)
            workshop.clock.advance(SECOND)
            await until(lambda: attempts >= 5)
            assert "the disk is full" in stream.failure
            assert caplog.text.count("the disk is full") == 1
        await until(lambda: not len(stream._store.head))
        await until(lambda: not stream.failure)
        assert "works again, after" in caplog.text
    workshop.close()
