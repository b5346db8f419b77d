"""A pump runs while there is work, and notices what happens in its last step."""

from __future__ import annotations

import asyncio

from headwater.delivery.pump import Pump
from waits import until


class Work:
    """Deliveries that a test lets pass one by one, and the ends of the tasks that ran them."""

    def __init__(self) -> None:
        self.rounds = 0
        self.passes = asyncio.Semaphore(0)
        self.error: Exception | None = None
        self.ended: list[bool] = []
        """Whether the pump counted as running at each end."""
        self.tasks: list[asyncio.Task[None]] = []
        self.pump = Pump(self._deliver, self._ended, self.tasks.append)

    async def _deliver(self) -> None:
        self.rounds += 1
        await self.passes.acquire()
        if self.error is not None:
            raise self.error

    def _ended(self) -> None:
        self.ended.append(self.pump.is_running)


async def test_a_pump_ends_when_its_work_is_done() -> None:
    work = Work()
    assert not work.pump.is_running
    work.pump.start("S > C")
    assert work.pump.is_running
    work.passes.release()
    await until(lambda: len(work.tasks) == 1)
    assert (work.rounds, work.ended, work.tasks[0].get_name()) == (1, [False], "S > C")
    assert not work.pump.is_running


async def test_a_wake_up_meanwhile_has_it_check_once_more() -> None:
    work = Work()
    work.pump.start("S > C")
    await until(lambda: work.rounds == 1)
    work.pump.check_again()
    work.pump.check_again()
    work.passes.release()
    await until(lambda: work.rounds == 2)
    work.passes.release()
    await until(lambda: not work.pump.is_running)
    assert work.rounds == 2


async def test_a_failed_task_is_reported_and_a_new_one_may_start() -> None:
    work = Work()
    work.error = ValueError("damaged")
    work.pump.start("S > C")
    work.passes.release()
    await until(lambda: len(work.tasks) == 1)
    assert (str(work.tasks[0].exception()), work.ended, work.pump.is_running) == ("damaged", [], False)
    work.error = None
    work.pump.start("S > C")
    work.passes.release()
    await until(lambda: len(work.tasks) == 2)
    assert work.ended == [False]


async def test_a_closed_pump_has_no_task() -> None:
    work = Work()
    await work.pump.close()
    work.pump.start("S > C")
    await until(lambda: work.rounds == 1)
    await work.pump.close()
    await until(lambda: len(work.tasks) == 1)
    assert work.tasks[0].cancelled()
    assert not work.pump.is_running
    assert work.ended == []
