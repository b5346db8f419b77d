"""A child process: started in a session of its own, read line by line, and ended in time."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO

from headwater.process.launcher import bound_to_us

MAX_LINE = 1 << 20
_LAST_LINES_S = 1.0
"""How long to wait for the last output of an ended process: a child of its own may keep the pipe open."""


class ChildProcess:
    """The process of one program, which may be started again after it has ended."""

    def __init__(self, stop_timeout_s: float, on_line: Callable[[str], None] | None = None) -> None:
        self._stop_timeout_s = stop_timeout_s
        self._on_line = on_line
        """Gets each line of its standard error; without it, `start` needs a file for the output."""
        self._process: asyncio.subprocess.Process | None = None
        """None while it does not run."""
        self._reading: asyncio.Task[None] | None = None
        """Passes the lines of its output on."""

    @property
    def pid(self) -> int | None:
        """Return the process id, if the process is running."""
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def status(self) -> int | None:
        """Return the exit status of the last process, if there was one and it has ended."""
        return self._process.returncode if self._process is not None else None

    @property
    def is_running(self) -> bool:
        """Return whether there is a process that has not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        output: IO[bytes] | None = None,
    ) -> None:
        """Start the program; its output goes to the file, or its errors line by line to `on_line`."""
        assert not self.is_running
        self._process = await asyncio.create_subprocess_exec(
            *bound_to_us(command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output or asyncio.subprocess.DEVNULL,
            stderr=output or asyncio.subprocess.PIPE,
            env=environment,
            limit=MAX_LINE,
            start_new_session=True,  # Ctrl-C must reach only us, and we end our children in order
        )
        if output is None:
            self._reading = asyncio.create_task(self._read(self._process))

    async def ended(self) -> int | None:
        """Return the exit status once the process has ended and its last line was read."""
        if self._process is None:
            return None
        status = await self._process.wait()
        if self._reading is not None:
            await asyncio.wait({self._reading})
        return status

    async def end(self) -> None:
        """End the process; kill it, with the processes of its group, if it does not end in time."""
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(self._stop_timeout_s):
                    await process.wait()
            except TimeoutError:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if self._reading is not None:
            _, unread = await asyncio.wait({self._reading}, timeout=_LAST_LINES_S)
            if unread:
                self._reading.cancel()
                process._transport.close()  # type: ignore[attr-defined]  # there is no public way

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it is running."""
        if self._process is not None and self.is_running:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        assert self._on_line is not None
        while True:
            try:
                raw = await process.stderr.readline()
            except ValueError:  # a line longer than the limit
                continue
            if not raw:
                return
            self._on_line(raw.decode(errors="replace").rstrip())
