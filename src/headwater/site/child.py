"""A process of a site: started, restarted when it dies, and stopped with the supervisor."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from headwater.backoff import Backoff
from headwater.errors import Error
from headwater.process.child_keeper import ChildKeeper
from headwater.process.child_process import ChildProcess

logger = logging.getLogger(__name__)
READY_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 30.0
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 10.0
SETTLED_S = 30.0
_POLL_S = 0.05
_LAST_WORDS = 2000


class ChildError(Error):
    """A process of a site is not ready in time; the message contains its last output."""


class Child:
    """One process with its log and its readiness check."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        is_ready: Callable[[Child], Awaitable[bool]],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self.restarts = 0
        self._command = list(command)
        self._environment = dict(environment) if environment is not None else None
        self._is_ready = is_ready
        """Returns whether the process serves already."""
        self._process = ChildProcess(STOP_TIMEOUT_S)
        waits = Backoff(FIRST_WAIT_S, LONGEST_WAIT_S, SETTLED_S)
        self._keeper = ChildKeeper(f"keep {name}", self._process, self._restart, waits)
        self.began_at = 0
        """Where the output of the current process begins in the log."""

    @property
    def pid(self) -> int | None:
        """Return the process id, if there is a process."""
        return self._process.pid

    @property
    def said(self) -> str:
        """Return the output of the current process."""
        try:
            with self.log.open("rb") as file:
                file.seek(self.began_at)
                return file.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    async def start(self) -> None:
        """Return once the process is ready. From then on it is restarted when it dies."""
        await self._launch()
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                while not await self._is_ready(self):
                    if not self._process.is_running:
                        status = self._process.status
                        raise ChildError(f"{self.name} ended with status {status}: {self._last_words()}")
                    await asyncio.sleep(_POLL_S)
        except BaseException as error:
            await self._process.end()
            if isinstance(error, TimeoutError):
                problem = f"{self.name} was not ready in {READY_TIMEOUT_S:g} s: {self._last_words()}"
                raise ChildError(problem) from None
            raise
        self._keeper.begin()

    async def stop(self) -> None:
        """Stop the process; kill it if it does not stop in time. It may be started again."""
        await self._keeper.stop()

    def reload(self) -> None:
        """Ask a server to read its configuration again."""
        self._process.signal(signal.SIGHUP)

    async def _launch(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.began_at = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            await self._process.start(self._command, environment=self._environment, output=log)

    async def _restart(self) -> None:
        self.restarts += 1
        try:
            await self._launch()
        except OSError as error:
            logger.error("cannot restart %s: %s", self.name, error)

    def _last_words(self) -> str:
        lines = self.said[-_LAST_WORDS:].strip().splitlines()
        return f"{lines[-1]} (more in {self.log})" if lines else f"it said nothing (see {self.log})"


async def start_all(children: Sequence[Child]) -> None:
    """Start processes concurrently; if one fails, no other one is starting afterwards."""
    starting = [asyncio.create_task(child.start()) for child in children]
    try:
        await asyncio.gather(*starting)
    finally:
        for task in starting:
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)


async def stop_all(children: Sequence[Child]) -> None:
    """Stop processes concurrently."""
    await asyncio.gather(*(child.stop() for child in children))
