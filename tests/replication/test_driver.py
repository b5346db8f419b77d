"""Rounds of plan, job and commit in parallel, also if the engine is unreachable or refuses."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from headwater.errors import Error
from headwater.replication import driver as driver_module
from headwater.replication.driver import (
    COMMIT_ATTEMPTS,
    LONG_ROUNDS,
    LONGEST_PAUSE_S,
    Driver,
    has_room,
    pause_s,
)
from headwater.replication.exchange import EngineUnreachableError
from headwater.replication.work import Committed, FileRange, Plan, Receipt, Work
from replication.fake_engine import FakeEngine, Inline
from replication.works import brought, file_of, tail_of, work_of
from table.samples import message

WAIT_S = 60


class Pauses:
    """Remembers the pauses instead of making them, and ends the driving after so many."""

    def __init__(self, count: int) -> None:
        self.made: list[float] = []
        self._count = count

    async def __call__(self, seconds: float) -> None:
        self.made.append(seconds)
        if len(self.made) >= self._count:
            raise asyncio.CancelledError
        await asyncio.sleep(0)


class AwayEngine(FakeEngine):
    """An engine that does not answer some plans or commits."""

    def __init__(self, plans: int = 0, commits: int = 0) -> None:
        super().__init__()
        self._plans = plans
        self._commits = commits

    async def plan(self, under_way: Collection[str] = ()) -> Plan:
        self._plans -= 1
        if self._plans >= 0:
            raise EngineUnreachableError("away")
        return await super().plan(under_way)

    async def commit(self, receipts: Sequence[Receipt]) -> Committed:
        self._commits -= 1
        if self._commits >= 0:
            raise EngineUnreachableError("away")
        return await super().commit(receipts)


class Gated(Inline):
    """A cluster whose long jobs end only when they are let."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def run(self, works: Sequence[Work]) -> list[Receipt]:
        """Do the works, those with files once the gate is open."""
        if any(work.files for work in works):
            assert self.gate.wait(WAIT_S)
        return super().run(works)


@asynccontextmanager
async def driving(engine: FakeEngine, cluster: Inline | None = None) -> AsyncIterator[None]:
    """Drive in the background, with pauses that take no time."""
    driver = Driver(engine, cluster or Inline(), lambda seconds: asyncio.sleep(0))
    task = asyncio.create_task(driver.drive())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def tail(name: str, *seqs: int) -> Work:
    """Return a piece of work on a few messages."""
    return work_of(id=name, stop_seq=9, tail=tail_of([message(seq) for seq in seqs or (1,)]))


async def test_a_plan_is_one_job_and_its_receipts_are_committed_in_order() -> None:
    engine, cluster = FakeEngine(), Inline()
    engine.offer(*(tail(str(n), n) for n in (1, 2, 3)))
    async with driving(engine, cluster):
        receipts = [await engine.receipt() for _ in range(3)]
    assert cluster.runs == [["1", "2", "3"]]
    assert [brought(receipt) for receipt in receipts] == [[message(1)], [message(2)], [message(3)]]
    assert engine.commits == 1


async def test_an_empty_plan_runs_no_job() -> None:
    cluster = Inline()
    pauses = Pauses(2)
    with pytest.raises(asyncio.CancelledError):
        await Driver(FakeEngine(), cluster, pauses).drive()
    assert cluster.runs == []
    assert max(pauses.made) < pause_s(1)


async def test_receipts_too_large_for_one_message_are_handed_in_in_several() -> None:
    engine = FakeEngine()
    large = [message(seq)._replace(data=bytes(200_000)) for seq in range(1, 9)]
    engine.offer(*(work_of(id=str(m.seq), stop_seq=9, tail=tail_of([m])) for m in large))
    async with driving(engine):
        assert [(await engine.receipt()).work for _ in range(8)] == [str(m.seq) for m in large]
    assert engine.commits == 3


async def test_a_long_round_does_not_keep_a_trickle_waiting(tmp_path: Path) -> None:
    engine, cluster = FakeEngine(), Gated()
    file = file_of(tmp_path, [message(1)])
    engine.offer(work_of(id="giant", stop_seq=1, files=(file,)))
    async with driving(engine, cluster):
        for number in range(5):
            engine.offer(tail(f"trickle {number}"))
            assert (await engine.receipt()).work == f"trickle {number}"
        assert not cluster.gate.is_set()
        cluster.gate.set()
        assert (await engine.receipt()).work == "giant"


def test_there_is_room_for_one_round_of_tails_and_a_few_long_ones() -> None:
    short = Plan(works=(tail("short"),))
    long = Plan(works=(tail("a"), work_of(stop_seq=1, files=(FileRange("x", 0, 1, 1),))))
    assert has_room([])
    assert not has_room([short])
    assert has_room([long] * (LONG_ROUNDS - 1))
    assert not has_room([long] * LONG_ROUNDS)
    assert not has_room([long, short])


async def test_a_cluster_that_is_lost_ends_the_driving_while_a_request_is_open() -> None:
    class Lost(Inline):
        def run(self, works: Sequence[Work]) -> list[Receipt]:
            raise Error("Spark has ended")

    engine = FakeEngine()
    engine.offer(work_of(id="giant", stop_seq=1, files=(FileRange("x", 0, 1, 1),)))
    with pytest.raises(Error, match="Spark has ended"):
        await asyncio.wait_for(Driver(engine, Lost()).drive(), WAIT_S)


async def test_an_engine_that_is_away_is_asked_again_with_growing_pauses() -> None:
    engine, pauses = AwayEngine(plans=9), Pauses(10)
    with pytest.raises(asyncio.CancelledError):
        await Driver(engine, Inline(), pauses).drive()
    assert pauses.made[:3] == [pause_s(1), pause_s(2), pause_s(3)]
    assert max(pauses.made) == LONGEST_PAUSE_S
    assert pauses.made[-1] < pause_s(1)


async def test_receipts_are_sent_again_without_an_answer() -> None:
    engine = AwayEngine(commits=3)
    engine.offer(tail("a"))
    async with driving(engine):
        assert brought(await engine.receipt()) == [message(1)]


async def test_receipts_are_given_up_after_many_attempts_and_the_work_is_planned_again() -> None:
    engine, cluster = AwayEngine(commits=COMMIT_ATTEMPTS), Inline()
    engine.offer(tail("a"))
    async with driving(engine, cluster):
        assert brought(await engine.receipt()) == [message(1)]
    assert cluster.runs == [["a"], ["a"]]


async def test_rounds_in_which_everything_is_refused_make_the_driver_wait() -> None:
    engine, pauses = FakeEngine(), Pauses(7)
    engine.refuse = lambda receipt: "no"
    for name in "abc":
        engine.offer(tail(name))
    with pytest.raises(asyncio.CancelledError):
        await Driver(engine, Inline(), pauses).drive()
    assert [await engine.receipt() for _ in range(3)]
    assert pause_s(1) in pauses.made
    assert pause_s(2) in pauses.made


async def test_what_was_copied_is_one_line_of_the_log_and_refusals_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = FakeEngine()
    engine.refuse = lambda receipt: "the cursor has moved" if receipt.work == "b" else ""
    for work in ("a", "b"):
        engine.offer(tail(work, 1, 2))
    with caplog.at_level(logging.INFO):
        async with driving(engine):
            for _ in range(2):
                await engine.receipt()
            asked = engine.plans_asked
            while engine.plans_asked < asked + 2:
                await asyncio.sleep(0.01)
    copied, refused = caplog.records
    assert (copied.getMessage(), vars(copied)["messages"]) == ("copied", 2)
    assert (refused.levelname, vars(refused)["reason"]) == ("WARNING", "the cursor has moved")


async def test_many_rounds_in_a_short_time_are_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    engine = FakeEngine()
    for name in "abcd":
        engine.offer(tail(name, 1, 2))
    with caplog.at_level(logging.INFO):
        async with driving(engine):
            for _ in range(4):
                await engine.receipt()
            with patch.object(driver_module, "REPORT_S", 0.0):
                while len(caplog.records) < 2:
                    await asyncio.sleep(0.01)
    logged = [(vars(record)["messages"], vars(record)["rounds"]) for record in caplog.records]
    assert logged == [(2, 1), (6, 3)]
