"""Tests of monitor.loop_delay."""

from __future__ import annotations

import asyncio
import time

from headwater.meters import Histogram
from headwater.monitor import loop_delay
from waits import until


async def test_a_turn_that_takes_long_is_seen() -> None:
    delays = Histogram((0.2,))
    measuring = asyncio.create_task(loop_delay.measure(delays))
    await until(lambda: delays.count > 0)
    above = delays.count - delays.cumulative()[0]
    time.sleep(loop_delay.PERIOD_S + 0.3)  # blocks the loop on purpose
    await until(lambda: delays.count - delays.cumulative()[0] > above)
    measuring.cancel()
