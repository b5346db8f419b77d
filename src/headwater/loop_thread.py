"""An event loop on a thread of its own, for code that blocks its own thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class LoopThread:
    """A thread that runs coroutines of other threads until it is stopped.

    It is a daemon: an interpreter that ends does not wait for it.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Return whether the thread still runs."""
        return self._thread.is_alive()

    def submit(self, work: Coroutine[Any, Any, Result]) -> concurrent.futures.Future[Result]:
        """Start a coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Return the result of a coroutine; Ctrl-C in the calling thread cancels it."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], object]) -> None:
        """Have the loop call a function soon."""
        self._loop.call_soon_threadsafe(function)

    def stop(self, timeout_s: float | None = None) -> None:
        """Return once the loop and its thread have ended; coroutines that still run are cancelled."""
        try:
            self._loop.call_soon_threadsafe(self._loop.stop)
        except RuntimeError:
            pass  # another thread has stopped it
        self._thread.join(timeout_s)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._cancel_rest()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def _cancel_rest(self) -> None:
        rest = asyncio.all_tasks(self._loop)
        for task in rest:
            task.cancel()
        if rest:
            self._loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
