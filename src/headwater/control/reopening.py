"""Tries again to open streams that could not be opened: after ever longer pauses, or on request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from headwater.backoff import wait_s

FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 300.0


class Reopening:
    """A task that calls `attempt` until it returns that nothing is left to open."""

    def __init__(self, attempt: Callable[[], Awaitable[bool]]) -> None:
        self._attempt = attempt
        self._asked = asyncio.Event()
        """Set when a client asks for a stream that could not be opened."""
        self._task: asyncio.Task[None] | None = None
        """None until there is something to open again."""

    def start(self) -> None:
        """Begin, unless it is running."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="reopen streams")

    def ask(self) -> None:
        """Have the next attempt made soon, however long the pause is by now."""
        self._asked.set()

    async def _run(self) -> None:
        attempts = 0
        while True:
            pause_s = wait_s(attempts + 1, FIRST_PAUSE_S, LONGEST_PAUSE_S)
            # However often a client asks, a broken stream must not take all of the disk's time.
            await asyncio.sleep(FIRST_PAUSE_S)
            try:
                async with asyncio.timeout(pause_s - FIRST_PAUSE_S):
                    await self._asked.wait()
            except TimeoutError:
                pass
            self._asked.clear()
            if not await self._attempt():
                return
            attempts += 1

    async def close(self) -> None:
        """Return once no attempt is running."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
