"""The engine's own replicator: a child process, started when needed, watched, and ended with the engine."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headwater.backoff import Backoff
from headwater.bus.launcher import bound_to_us
from headwater.replication.java import MISSING, java_path
from headwater.settings import Settings

logger = logging.getLogger(__name__)

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 30.0
SETTLED_S = 60.0
"""A replicator that ran for this long did not fail because of its start."""
STOP_TIMEOUT_S = 15.0
MAX_LINE = 1 << 20
_PREFIX = "HEADWATER_"


class Supervisor:
    """Keeps one replicator running from the first time it is needed until the engine stops."""

    def __init__(
        self,
        settings: Settings,
        handover: Path,
        store_id: str,
        program: Sequence[str] = (sys.executable, "-m", "headwater"),
    ) -> None:
        self.problem = ""
        """Why there is no replicator now, in one sentence; empty if there is one or none is needed."""
        self._command = [*program, "replicator", "--engine", f"{store_id}={handover}"]
        self._environment = environment(settings, os.environ)
        self._process: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Return the process id of the running replicator."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if self._process is not None and running else None

    def look_for_java(self) -> None:
        """Report a missing Java now, and not only once there is something to copy."""
        if java_path(os.environ) is None:
            self.problem = MISSING
            logger.warning("%s; sources and mirrors are not copied until then", MISSING)

    def ensure(self) -> None:
        """Have a replicator running from now on; returns at once."""
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep(), name="replicator")

    async def stop(self) -> None:
        """End the replicator; kill it if it does not end in time."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)

    async def _keep(self) -> None:
        """Start the replicator, and restart it whenever it ends."""
        loop = asyncio.get_running_loop()
        waits = Backoff(FIRST_WAIT_S, LONGEST_WAIT_S, SETTLED_S)
        while True:
            began = loop.time()
            try:
                self.problem = await self._run()
            except OSError as error:
                self.problem = f"cannot start the replicator: {error}"
            wait_s = waits.next_s(ran_s=loop.time() - began)
            logger.error("%s; restarting it in %g s", self.problem, wait_s)
            await asyncio.sleep(wait_s)

    async def _run(self) -> str:
        """Run one replicator until it ends, and return why it ended."""
        self._process = process = await asyncio.create_subprocess_exec(
            *bound_to_us([*self._command, "--parent", str(os.getpid())]),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
            limit=MAX_LINE,
            start_new_session=True,  # Ctrl-C must reach the engine only, which then ends the replicator
        )
        try:
            last_words = await self._relay(process)
            status = await process.wait()
        except BaseException:
            await _end(process)
            raise
        return f"the replicator ended with status {status}: {last_words or 'it logged nothing'}"

    async def _relay(self, process: asyncio.subprocess.Process) -> str:
        """Copy the replicator's log lines into the engine's log, and return its last one."""
        assert process.stderr is not None
        last_words = ""
        while True:
            try:
                raw = await process.stderr.readline()
            except ValueError:  # a line longer than the limit
                continue
            if not raw:
                return last_words
            line = raw.decode(errors="replace").strip()
            said = record_of(line)
            if said is None:
                if line.startswith("headwater: "):
                    last_words = line.removeprefix("headwater: ")
                logger.debug("replicator: %s", line)
                continue
            level, name, event, fields = said
            if level >= logging.ERROR:
                last_words = event
            self.problem = ""
            logging.getLogger(name).log(level, "%s", event, extra=fields)


def environment(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the replicator's environment, without credentials: other users can read an environment."""
    passed = {
        "spark_master": settings.spark_master,
        "spark_driver_memory": settings.spark_driver_memory,
        "executor_config": str(settings.executor_config or ""),
        "log_level": settings.log_level,
        "log_format": "json",
    }
    # The engine's own variables and file were read already, and flags may have overridden them.
    inherited = {name: value for name, value in environ.items() if not name.startswith(_PREFIX)}
    return inherited | {_PREFIX + name.upper(): value for name, value in passed.items() if value}


def record_of(line: str) -> tuple[int, str, str, dict[str, Any]] | None:
    """Return level, logger, event and fields of a line of the replicator's log; None for other lines."""
    try:
        fields = json.loads(line)
        level = logging.getLevelNamesMapping()[fields.pop("level").upper()]
        fields.pop("time")
        return level, fields.pop("logger"), fields.pop("event"), fields
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


async def _end(process: asyncio.subprocess.Process) -> None:
    """Return once the process has ended; kill it, with its children, if it does not end in time."""
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
