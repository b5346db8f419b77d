"""The pump of a consumer: one task that delivers until nothing is left, and ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class Pump:
    """Runs a consumer's deliveries; a consumer without work has no task."""

    def __init__(
        self,
        deliver: Callable[[], Awaitable[None]],
        ended: Callable[[], None],
        done: Callable[[asyncio.Task[None]], None],
    ) -> None:
        self._deliver = deliver
        """Delivers until there is no demand, or nothing is left."""
        self._ended = ended
        """Called when a run ends without an error, after its task no longer counts as running."""
        self._done = done
        """Called with each ended task, also with a failed one."""
        self._task: asyncio.Task[None] | None = None
        """None while there is nothing to deliver."""
        self._woken = False
        """Whether something happened since the last check for work."""

    @property
    def is_running(self) -> bool:
        """Return whether a wake-up is noticed without a new start."""
        return self._task is not None

    def check_again(self) -> None:
        """Have the running task check for work once more before it ends."""
        self._woken = True

    def start(self, name: str) -> None:
        """Begin to deliver, in a task of this name."""
        self._task = asyncio.create_task(self._run(), name=name)
        self._task.add_done_callback(self._finish)

    async def _run(self) -> None:
        # A wake-up while this runs, up to its last step, has it check once more.
        self._woken = True
        while self._woken:
            self._woken = False
            await self._deliver()
        self._task = None
        self._ended()

    def _finish(self, task: asyncio.Task[None]) -> None:
        if self._task is task:
            self._task = None
        self._done(task)

    async def close(self) -> None:
        """Cancel the task, and wait for its end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
