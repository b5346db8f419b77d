"""Snapshots and restores in progress: long work that outlives its request, bounded and owned here."""

from __future__ import annotations

from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from headwater.background_tasks import BackgroundTasks
from headwater.errors import api_error

AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class TransferTimeouts:
    """How long a transfer waits for its client before it gives up."""

    ack_s: float = 5.0
    chunk_s: float = 5.0
    interest_s: float = 2.0


class Transfers:
    """Runs a few snapshots and restores at a time, and ends them when the API stops."""

    def __init__(self, timeouts: TransferTimeouts | None = None) -> None:
        self.timeouts = timeouts or TransferTimeouts()
        # Separate threads: a restore's thread waits for the client between chunks.
        self.executor = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="transfer")
        self._tasks = BackgroundTasks()

    def start(self, name: str, work: Coroutine[None, None, None]) -> None:
        """Run the work in the background, or refuse it if enough is in progress."""
        if len(self._tasks) >= AT_ONCE:
            work.close()
            raise api_error("cluster_not_avail")
        self._tasks.start(work, name)

    async def close(self) -> None:
        """Return once every transfer has ended; those in progress are cancelled."""
        self._tasks.cancel()
        await self._tasks.ended()
        self.executor.shutdown(wait=False, cancel_futures=True)
