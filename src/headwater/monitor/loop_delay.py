"""Measures how late the event loop runs a timer: what every client waits for when one of them is slow."""

from __future__ import annotations

import asyncio

from headwater.meters import Histogram

PERIOD_S = 0.1


async def measure(delays: Histogram) -> None:
    """Record delays until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due_s = loop.time() + PERIOD_S
        await asyncio.sleep(PERIOD_S)
        delays.observe(max(loop.time() - due_s, 0.0))
