"""Ranges of objects that are likely to be read next, fetched into the cache before a reader asks.

A replay reads one row group after the other. Without this, it would wait for the bucket at each of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from headwater.errors import DiskError

THREADS = 4
MOST_IN_PROGRESS = 16
"""How many ranges of all streams may be requested at once; more are left to their readers."""


class Prefetch:
    """Fetches in progress, by the key of what they fetch; any thread may call."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="prefetch")
        self._lock = threading.Lock()
        self._in_progress: dict[str, Future[None]] = {}
        """Downloads in progress, by path."""

    def begin(self, key: str, fetch: Callable[[], object]) -> None:
        """Have a range fetched, unless that or enough other fetches are in progress."""
        with self._lock:
            if key in self._in_progress or len(self._in_progress) >= MOST_IN_PROGRESS:
                return
            self._in_progress[key] = future = self._threads.submit(self._run, fetch)
        future.add_done_callback(lambda _: self._ended(key))

    def wait(self, key: str) -> None:
        """Return once no fetch of a range is in progress; the cache shows whether it succeeded."""
        with self._lock:
            future = self._in_progress.get(key)
        if future is not None:
            future.result()

    def _run(self, fetch: Callable[[], object]) -> None:
        try:
            fetch()
        except (DiskError, OSError):
            pass  # the reader asks again, and reports it

    def _ended(self, key: str) -> None:
        with self._lock:
            self._in_progress.pop(key, None)
