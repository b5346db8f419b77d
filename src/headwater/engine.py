"""`headwater.serve`: an engine in this process, on an event loop and a thread of its own.

The thread keeps the engine answering while the caller's thread blocks, for example in `headwater.scan`.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import threading
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any

from headwater.app import serve as serve_streams
from headwater.client.connecting import PendingClient, connect
from headwater.errors import Error
from headwater.loaded_settings import load
from headwater.loop_thread import LoopThread
from headwater.settings import Settings
from headwater.stan.modes import check_modes
from headwater.store_directory import require_directory

EXIT_S = 30.0
"""How long a process that ends waits for each engine that was not stopped."""
_running: weakref.WeakSet[LocalEngine] = weakref.WeakSet()


class LocalEngine:
    """An engine in this process; `async with` or `with` starts it and stops it.

    In a notebook, where a block cannot span cells, call `start` and later `stop`.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._thread: LoopThread | None = None
        """Runs the engine's event loop; None while it is not served."""
        self._task: asyncio.Task[None] | None = None
        """Serves the store on the thread's loop."""
        self._ready: concurrent.futures.Future[str] = concurrent.futures.Future()
        """The address, once clients are answered."""
        self._ended: concurrent.futures.Future[BaseException | None] = concurrent.futures.Future()
        """Why the engine ended, None if it was stopped."""
        self._cancelling = threading.Lock()
        """Taken once and never released: a second cancellation would interrupt the closing of files."""

    def __repr__(self) -> str:
        where = self._ready.result() if self._ready.done() else "not started"
        return f"<LocalEngine of {self.store}: {where}>"

    @property
    def store(self) -> Path:
        """Return the directory of the streams."""
        assert self._settings.store is not None
        return self._settings.store

    @property
    def url(self) -> str:
        """Return the address for NATS clients."""
        if not self._ready.done():
            raise Error("the engine was not started: use `with`, `async with` or start()")
        return self._ready.result()

    @property
    def error(self) -> BaseException | None:
        """Return why the engine ended by itself, for example because another engine took its store."""
        return self._ended.result() if self._ended.done() else None

    def connect(self, **options: Any) -> PendingClient:
        """Return a client of this engine; see `headwater.connect`."""
        settings = self._settings
        given = {
            name: str(value)
            for name in (
                "domain",
                "user",
                "password",
                "token",
                "creds",
                "nkey",
                "tls_ca",
                "tls_cert",
                "tls_key",
            )
            if (value := getattr(settings, name)) is not None
        }
        return connect(self.url, **{**given, **options})

    def start(self) -> LocalEngine:
        """Return once clients are answered; raise `headwater.Error` if the engine cannot start."""
        self._launch()
        waits: set[concurrent.futures.Future[Any]] = {self._ready, self._ended}
        try:
            concurrent.futures.wait(waits, return_when=concurrent.futures.FIRST_COMPLETED)
        except BaseException:
            self._end()
            raise
        if not self._ready.done():
            self._end()
            self._raise_error()
        return self

    def stop(self) -> None:
        """Return once everything is closed; raise if the engine had ended by itself. Twice is allowed."""
        if self._thread is not None:
            self._end()
            self._raise_error()

    async def __aenter__(self) -> LocalEngine:
        self._launch()
        # Waiting for these must not cancel them.
        ready, ended = asyncio.wrap_future(self._ready), asyncio.wrap_future(self._ended)
        waits: set[asyncio.Future[Any]] = {asyncio.shield(ready), asyncio.shield(ended)}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            await self._end_off_loop()
            raise
        if not self._ready.done():
            await self._end_off_loop()
            self._raise_error()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end_off_loop()
        if error is None:
            self._raise_error()

    def __enter__(self) -> LocalEngine:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        if error is None:
            self._raise_error()

    def _launch(self) -> None:
        if self._thread is not None:
            raise Error("an engine can be started only once: call headwater.serve again")
        require_directory(self.store)
        self._thread = LoopThread(f"headwater engine {self.store}")
        self._task = self._thread.run(self._begin())
        _stop_at_exit(self)

    async def _begin(self) -> asyncio.Task[None]:
        task = asyncio.create_task(serve_streams(self._settings, _Readiness(self._ready)))
        task.add_done_callback(self._finish)
        return task

    def _finish(self, task: asyncio.Task[None]) -> None:
        """Record why the engine ended."""
        self._ended.set_result(None if task.cancelled() else task.exception())

    async def _end_off_loop(self) -> None:
        """Stop the engine without blocking the caller's loop; a cancelled caller waits for it, too."""
        ending = asyncio.ensure_future(asyncio.to_thread(self._end))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await ending
            raise

    def _end(self, timeout_s: float | None = None) -> None:
        """Stop the engine and its thread; a second call does nothing."""
        _running.discard(self)
        if self._thread is None or self._task is None or not self._thread.is_alive:
            return
        if self._cancelling.acquire(blocking=False):
            self._thread.call(self._task.cancel)
        concurrent.futures.wait({self._ended}, timeout_s)
        self._thread.stop(timeout_s)

    def _raise_error(self) -> None:
        error = self.error
        if isinstance(error, Error):
            raise error
        if error is not None:
            raise Error(f"the engine ended: {error or type(error).__name__}") from error


def _stop_at_exit(engine: LocalEngine) -> None:
    """Stop an engine when the interpreter ends, unless that was done before."""
    if not _running:
        # Functions of atexit run after the thread pools are closed, too late for an engine that closes files
        # in threads. The thread pools themselves use this hook.
        getattr(threading, "_register_atexit", atexit.register)(_stop_all)
    _running.add(engine)


def _stop_all() -> None:
    for engine in list(_running):
        engine._end(EXIT_S)


class _Readiness:
    """Takes the announcements of an engine and sets the address when the engine is ready."""

    def __init__(self, ready: concurrent.futures.Future[str]) -> None:
        self._ready = ready

    def waiting(self, store: Path, owner: str) -> None:
        """Do nothing: the caller waits, too."""

    def ready(self, url: str, served: str, seconds: float) -> None:
        """Set the address, the first time."""
        if not self._ready.done():
            self._ready.set_result(url)


def serve(store: str | Path, **options: Any) -> LocalEngine:
    """Return an engine that serves a store from this process, for tests and notebooks.

    Use it as `async with headwater.serve("lake") as engine`, as `with headwater.serve("lake") as engine`, or
    with `start()` and `stop()`. When it has started, `engine.url` is the address for any NATS client.

    `options` are settings by their names in the reference, such as `port`, `domain`, `stan` or `nats_url`.
    Environment variables and settings files are not read. Without `port` the engine's nats-server listens on
    a free port of loopback. Several engines may run at once, each with its own store.

    Spark starts with the first source or mirror, not before, and stops with the engine. With
    `replicator="submitted"` it never starts here, and a source or mirror waits for a replicator of yours.

    Every error is a `headwater.Error`. An engine takes over no signal handlers and prints nothing; it logs
    with the logger `headwater`. If the process ends without `stop`, nothing that was acknowledged is lost.
    """
    settings = load(options={"port": 0, **options, "store": str(store)}).settings
    check_modes(settings)
    return LocalEngine(settings)
