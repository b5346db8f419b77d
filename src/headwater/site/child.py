"""A process of a site: started, restarted when it dies, and stopped with the supervisor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from headwater.backoff import Backoff
from headwater.bus.launcher import bound_to_us
from headwater.errors import Error

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
        self._process: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._began_at = 0

    @property
    def pid(self) -> int | None:
        """Return the process id, if there is a process."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if self._process is not None and running else None

    @property
    def said(self) -> str:
        """Return the output of the current process."""
        try:
            with self.log.open("rb") as file:
                file.seek(self._began_at)
                return file.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    async def start(self) -> None:
        """Return once the process is ready. From then on it is restarted when it dies."""
        await self._launch()
        assert self._process is not None
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                while not await self._is_ready(self):
                    if self._process.returncode is not None:
                        status = self._process.returncode
                        raise ChildError(f"{self.name} ended with status {status}: {self._last_words()}")
                    await asyncio.sleep(_POLL_S)
        except BaseException as error:
            await self._end()
            if isinstance(error, TimeoutError):
                problem = f"{self.name} was not ready in {READY_TIMEOUT_S:g} s: {self._last_words()}"
                raise ChildError(problem) from None
            raise
        self._keeping = asyncio.create_task(self._keep(), name=f"keep {self.name}")

    async def stop(self) -> None:
        """Stop the process; kill it if it does not stop in time."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        await self._end()

    async def _launch(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._began_at = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *bound_to_us(self._command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,  # Ctrl-C must reach only this process, which stops all in order
            )

    async def _keep(self) -> None:
        """Restart the process whenever it dies, with back-off."""
        loop = asyncio.get_running_loop()
        waits = Backoff(FIRST_WAIT_S, LONGEST_WAIT_S, SETTLED_S)
        while True:
            assert self._process is not None
            began = loop.time()
            await self._process.wait()
            await asyncio.sleep(waits.next_s(ran_s=loop.time() - began))
            self.restarts += 1
            await self._launch()

    async def _end(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def _last_words(self) -> str:
        lines = self.said[-_LAST_WORDS:].strip().splitlines()
        return f"{lines[-1]} (more in {self.log})" if lines else f"it said nothing (see {self.log})"


async def greets(host: str, port: int) -> bool:
    """Return whether a nats-server sends INFO on a port."""
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    try:
        async with asyncio.timeout(5):
            return (await reader.read(4)).startswith(b"INFO")
    except (OSError, TimeoutError):
        return False
    finally:
        writer.close()
