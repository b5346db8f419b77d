"""Rounds of plan, job and commit, also when the engine is away or refuses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from unittest.mock import patch

import pytest

from headwater.replication import driver as driver_module
from headwater.replication.driver import COMMIT_ATTEMPTS, LONGEST_PAUSE_S, Driver, pause_s
from headwater.replication.exchange import EngineAwayError
from headwater.replication.work import Committed, Plan, Receipt
from replication.fake_engine import FakeEngine, Inline
from replication.works import brought, tail_of, work_of
from table.samples import message


class Pauses:
    """Remembers the pauses instead of making them, and ends the driving after so many."""

    def __init__(self, count: int) -> None:
        self.made: list[float] = []
        self._count = count

    async def __call__(self, seconds: float) -> None:
        self.made.append(seconds)
        if len(self.made) >= self._count:
            raise asyncio.CancelledError


class AwayEngine(FakeEngine):
    """An engine that is away for some plans or commits."""

    def __init__(self, plans: int = 0, commits: int = 0) -> None:
        super().__init__()
        self._plans = plans
        self._commits = commits

    async def plan(self) -> Plan:
        self._plans -= 1
        if self._plans >= 0:
            raise EngineAwayError("away")
        return await super().plan()

    async def commit(self, receipts: Sequence[Receipt]) -> Committed:
        self._commits -= 1
        if self._commits >= 0:
            raise EngineAwayError("away")
        return await super().commit(receipts)


async def drive(engine: FakeEngine, rounds: int) -> Pauses:
    """Drive so many rounds, and return the pauses between them."""
    pauses = Pauses(rounds)
    with pytest.raises(asyncio.CancelledError):
        await Driver(engine, Inline(), pauses).drive()
    return pauses


async def test_a_plan_is_one_job_and_its_receipts_are_committed_in_order() -> None:
    engine, cluster = FakeEngine(), Inline()
    engine.offer(*(work_of(id=str(n), stop_seq=n, tail=tail_of([message(n)])) for n in (1, 2, 3)))
    assert await Driver(engine, cluster).tick()
    assert cluster.runs == [["1", "2", "3"]]
    receipts = [await engine.receipt() for _ in range(3)]
    assert [brought(receipt) for receipt in receipts] == [[message(1)], [message(2)], [message(3)]]
    assert engine.commits == 1


async def test_an_empty_plan_runs_no_job() -> None:
    cluster = Inline()
    assert await Driver(FakeEngine(), cluster).tick()
    assert cluster.runs == []


async def test_receipts_too_large_for_one_message_are_handed_in_in_several() -> None:
    engine = FakeEngine()
    large = [message(seq)._replace(data=bytes(200_000)) for seq in range(1, 9)]
    engine.offer(*(work_of(id=str(m.seq), stop_seq=9, tail=tail_of([m])) for m in large))
    assert await Driver(engine, Inline()).tick()
    assert [(await engine.receipt()).work for _ in range(8)] == [str(m.seq) for m in large]
    assert engine.commits == 3


async def test_an_engine_that_is_away_is_asked_again_with_growing_pauses() -> None:
    engine = AwayEngine(plans=9)
    engine.offer(work_of(stop_seq=3, tail=tail_of([message(1)])))
    pauses = await drive(engine, rounds=10)
    assert pauses.made[:3] == [pause_s(1), pause_s(2), pause_s(3)]
    assert max(pauses.made) == LONGEST_PAUSE_S
    assert pauses.made[-1] < pause_s(1)
    assert brought(await engine.receipt()) == [message(1)]


async def test_receipts_are_handed_in_again_when_nobody_answered() -> None:
    engine = AwayEngine(commits=3)
    engine.offer(work_of(stop_seq=3, tail=tail_of([message(1)])))
    await drive(engine, rounds=4)
    assert brought(await engine.receipt()) == [message(1)]


async def test_receipts_are_given_up_after_many_attempts_and_the_work_is_planned_again() -> None:
    engine = AwayEngine(commits=COMMIT_ATTEMPTS)
    engine.offer(work_of(stop_seq=3, tail=tail_of([message(1)])))
    await drive(engine, rounds=COMMIT_ATTEMPTS + 1)
    assert brought(await engine.receipt()) == [message(1)]


async def test_a_round_in_which_everything_is_refused_makes_the_driver_wait() -> None:
    engine = FakeEngine()
    engine.refuse = lambda receipt: "no"
    for name in "abc":
        engine.offer(work_of(id=name, stop_seq=3, tail=tail_of([message(1)])))
    pauses = await drive(engine, rounds=3)
    assert pauses.made == [pause_s(1), pause_s(2), pause_s(3)]


async def test_what_was_copied_is_one_line_of_the_log_and_refusals_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = FakeEngine()
    engine.refuse = lambda receipt: "the cursor has moved" if receipt.work == "b" else ""
    for work in ("a", "b"):
        engine.offer(work_of(id=work, stop_seq=3, tail=tail_of([message(1), message(2)])))
    with caplog.at_level(logging.INFO):
        driver = Driver(engine, Inline())
        assert [await driver.tick(), await driver.tick()] == [True, False]
    copied, refused = caplog.records
    assert (copied.getMessage(), vars(copied)["messages"]) == ("copied", 2)
    assert (refused.levelname, vars(refused)["reason"]) == ("WARNING", "the cursor has moved")


async def test_many_rounds_in_a_short_time_are_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    engine = FakeEngine()
    for name in "abcd":
        engine.offer(work_of(id=name, stop_seq=3, tail=tail_of([message(1), message(2)])))
    driver = Driver(engine, Inline())
    with caplog.at_level(logging.INFO):
        for _ in range(4):
            await driver.tick()
        with patch.object(driver_module, "TELL_S", 0.0):
            await driver.tick()
    told = [(vars(record)["messages"], vars(record)["rounds"]) for record in caplog.records]
    assert told == [(2, 1), (6, 3)]
