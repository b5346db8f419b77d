"""Keeps a child process running: launches it again, after ever longer waits, whenever it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from headwater.backoff import Backoff
from headwater.process.child_process import ChildProcess


class ChildKeeper:
    """The task that restarts one child process, from `begin` to `stop`."""

    def __init__(
        self,
        name: str,
        child: ChildProcess,
        launch: Callable[[], Awaitable[None]],
        waits: Backoff,
        on_ended: Callable[[float], None] = lambda wait_s: None,
    ) -> None:
        """Keep the child running with `launch`, which reports its own errors and may leave it stopped.

        `on_ended` is called with the time until the next launch, in seconds.
        """
        self._name = name
        self._child = child
        self._launch = launch
        self._waits = waits
        self._on_ended = on_ended
        self._task: asyncio.Task[None] | None = None
        """Watches the process; None while it is not kept."""

    def begin(self) -> None:
        """Keep the child running from now on, whether it has been launched already or not."""
        if self._task is None:
            self._task = asyncio.create_task(self._keep(), name=self._name)

    async def stop(self) -> None:
        """End the child, and launch it no more until the next `begin`."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self._child.end()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._child.is_running:
                await self._launch()
            began = loop.time()
            await self._child.ended()
            wait_s = self._waits.next_s(ran_s=loop.time() - began)
            self._on_ended(wait_s)
            await asyncio.sleep(wait_s)
