"""Asyncio tasks that run in the background of an object, which cancels or awaits them when it closes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any


class BackgroundTasks:
    """The running tasks of one owner. asyncio itself keeps only weak references to tasks."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[asyncio.Task[None]]:
        return iter(list(self._tasks))

    def start(self, work: Coroutine[Any, Any, None], name: str | None = None) -> asyncio.Task[None]:
        """Run the work in the background, and forget it once it has ended."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def cancel(self) -> None:
        """Cancel every task that runs."""
        for task in self:
            task.cancel()

    async def ended(self, timeout_s: float | None = None) -> None:
        """Return once the tasks that run now have ended, however they end, or after the timeout."""
        if timeout_s is None:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        elif self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
