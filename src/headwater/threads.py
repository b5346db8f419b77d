"""Threads for blocking calls: a call that hangs does not block other calls."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

HUNG_S = 5.0
"""A call that takes longer may never return: from then on its thread is not counted."""
MOST_HUNG = 256
"""With more hung calls than this no thread is added: the whole disk hangs."""

CONTROL_THREADS = 8
"""How many calls of the control plane, such as those to the catalog, run at a time."""

_T = TypeVar("_T")
_P = ParamSpec("_P")


class ThreadCall:
    """A `call` with its arguments, and the future of its result."""

    __slots__ = ("_args", "_call", "_named", "future")

    def __init__(self, call: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.future: Future[Any] = Future()
        self._call = call
        self._args = args
        self._named = named

    def run(self) -> None:
        """Make the call, unless it was cancelled before."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self._call(*self._args, **self._named)
        except BaseException as error:  # raised where the future is awaited
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class ElasticThreads(Executor):
    """Runs up to `most` calls at a time, plus one for each call that hangs.

    Its threads are daemons: a call that hangs does not keep the process from exiting.
    """

    def __init__(self, most: int, name: str, *, hung_s: float = HUNG_S) -> None:
        self._most = most
        self._name = name
        self._hung_s = hung_s
        self._lock = threading.Lock()
        self._calls: SimpleQueue[ThreadCall | None] = SimpleQueue()
        """What waits for a thread; None ends one."""
        self._queued = self._idle = 0
        """Calls that no thread has taken yet, and threads without a call."""
        self._threads: set[threading.Thread] = set()
        self._running: dict[threading.Thread, float] = {}
        """When each busy thread began its call, in monotonic seconds."""
        self._watch: threading.Thread | None = None
        """Adds threads while calls wait and others hang; started when the threads do not suffice."""
        self._closed = threading.Event()

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        """Return the future of a call that runs when a thread is free."""
        call = ThreadCall(fn, args, kwargs)
        with self._lock:
            if self._closed.is_set():
                raise RuntimeError("cannot submit a call after shutdown")
            self._queued += 1
            self._calls.put(call)
            if self._queued > self._idle and not self._grow() and self._watch is None:
                self._watch = threading.Thread(target=self._keep_growing, daemon=True)
                self._watch.start()
        return call.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls; with `wait`, return once all calls except hung ones have ended."""
        self._closed.set()
        while cancel_futures and (call := self._take_waiting()) is not None:
            call.future.cancel()
        with self._lock:
            threads = list(self._threads)
        for _ in threads:
            self._calls.put(None)
        while wait and any(thread.is_alive() and not self._hangs(thread) for thread in threads):
            time.sleep(0.001)

    def _take_waiting(self) -> ThreadCall | None:
        with self._lock:
            return None if self._calls.empty() else self._calls.get()

    def _hangs(self, thread: threading.Thread) -> bool:
        since = self._running.get(thread)
        return since is not None and time.monotonic() - since >= self._hung_s

    def _count(self) -> int:
        """Return how many threads there are, without those whose calls hang; the caller holds the lock."""
        return len(self._threads) - min(sum(map(self._hangs, list(self._running))), MOST_HUNG)

    def _grow(self) -> bool:
        """Add a thread if there is room; return whether there was. The caller holds the lock."""
        if self._count() >= self._most:
            return False
        thread = threading.Thread(target=self._work, name=f"{self._name}_{len(self._threads)}", daemon=True)
        self._threads.add(thread)
        self._idle += 1
        thread.start()
        return True

    def _keep_growing(self) -> None:
        """Add threads for waiting calls while others hang."""
        while not self._closed.wait(self._hung_s / 4):
            with self._lock:
                while self._queued > self._idle and self._grow():
                    pass

    def _work(self) -> None:
        me = threading.current_thread()
        while (call := self._calls.get()) is not None:
            with self._lock:
                self._idle -= 1
                self._queued -= 1
                self._running[me] = time.monotonic()
            call.run()
            del call
            if not self._set_idle(me):
                return

    def _set_idle(self, me: threading.Thread) -> bool:
        """Count a thread as idle, or end it if there are too many, as after a hung call has returned."""
        with self._lock:
            del self._running[me]
            if self._count() > self._most:
                self._threads.discard(me)
                return False
            self._idle += 1
            return True


class ThreadShare(Executor):
    """A stream's share of the threads: at most `most` of its calls run at a time."""

    def __init__(self, threads: Executor, most: int) -> None:
        self._threads = threads
        self._most = most
        self._lock = threading.Lock()
        self._waiting: deque[ThreadCall] = deque()
        """Calls beyond the share, in order."""
        self._running = 0
        """How many of our calls have a thread."""

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        """Return the future of a call that runs when its turn comes."""
        call = ThreadCall(fn, args, kwargs)
        with self._lock:
            self._waiting.append(call)
            if self._running >= self._most:
                return call.future
            self._running += 1
        self._threads.submit(self._run_next)
        return call.future

    def _run_next(self) -> None:
        """Run one call; the stream's next call joins the end of the queue that all streams share."""
        with self._lock:
            call = self._waiting.popleft()
        call.run()
        with self._lock:
            if not self._waiting:
                self._running -= 1
                return
        try:
            self._threads.submit(self._run_next)
        except RuntimeError:  # the threads were shut down
            for call in self._waiting:
                call.future.cancel()


_control = ElasticThreads(CONTROL_THREADS, "control")


async def on_thread(call: Callable[_P, _T], *args: _P.args, **named: _P.kwargs) -> _T:
    """Return what a blocking call of the control plane returns.

    Not `asyncio.to_thread`: a few calls that hang would take all threads of the loop's default executor, and
    the loop would wait for them at its end.
    """
    return await asyncio.get_running_loop().run_in_executor(_control, partial(call, *args, **named))
