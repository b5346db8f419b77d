"""The engine's own replicator, or runner of pipelines: a child process, started when needed, and watched."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headwater.backoff import Backoff
from headwater.process.child_keeper import ChildKeeper
from headwater.process.child_process import ChildProcess
from headwater.replication.java import MISSING, java_path
from headwater.settings import Settings

logger = logging.getLogger(__name__)

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 30.0
SETTLED_S = 60.0
"""A replicator that ran for this long did not fail because of its start."""
STOP_TIMEOUT_S = 15.0
_PREFIX = "HEADWATER_"


class Supervisor:
    """Keeps one replicator running from the first time it is needed until the engine stops."""

    def __init__(
        self,
        settings: Settings,
        handover: Path,
        store_id: str,
        program: Sequence[str] = (sys.executable, "-m", "headwater"),
        command: Sequence[str] = ("replicator",),
        name: str = "replicator",
    ) -> None:
        """Keep the process of a command running; `name` is what messages call it."""
        self._name = name
        self.problem = ""
        """Why there is no replicator now, in one sentence; empty if there is one or none is needed."""
        self._command = [*program, *command, "--engine", f"{store_id}={handover}"]
        self._environment = environment(settings, os.environ)
        """Without credentials: other users can read the environment of a process."""
        self._process = ChildProcess(STOP_TIMEOUT_S, self._on_line)
        waits = Backoff(FIRST_WAIT_S, LONGEST_WAIT_S, SETTLED_S)
        self._keeper = ChildKeeper(name, self._process, self._launch, waits, self._on_ended)
        self._cannot_start = ""
        """Why the last start failed; empty if it did not."""
        self._last_words = ""
        """The last error that the current process has logged."""
        self.restarts = 0
        """How often a process that ended was started again."""

    @property
    def pid(self) -> int | None:
        """Return the process id of the running replicator."""
        return self._process.pid

    def look_for_java(self) -> None:
        """Report a missing Java now, and not only once there is something to copy."""
        if java_path(os.environ) is None:
            self.problem = MISSING
            logger.warning("%s; sources and mirrors are not copied until then", MISSING)

    def ensure(self) -> None:
        """Have a replicator running from now on; returns at once."""
        self._keeper.begin()

    async def stop(self) -> None:
        """End the replicator; kill it if it does not end in time."""
        await self._keeper.stop()

    async def _launch(self) -> None:
        self._last_words = self._cannot_start = ""
        try:
            command = [*self._command, "--parent", str(os.getpid())]
            await self._process.start(command, environment=self._environment)
        except OSError as error:
            self._cannot_start = f"cannot start the {self._name}: {error}"

    def _on_ended(self, wait_s: float) -> None:
        words = self._last_words or "it logged nothing"
        self.problem = (
            self._cannot_start or f"the {self._name} ended with status {self._process.status}: {words}"
        )
        self.restarts += 1
        logger.error("%s; restarting it in %g s", self.problem, wait_s)

    def _on_line(self, line: str) -> None:
        """Copy a line of the replicator's log into the engine's log."""
        line = line.strip()
        said = record_of(line)
        if said is None:
            if line.startswith("headwater: "):
                self._last_words = line.removeprefix("headwater: ")
            logger.debug("%s: %s", self._name, line)
            return
        level, name, event, fields = said
        if level >= logging.ERROR:
            self._last_words = event
        self.problem = ""
        logging.getLogger(name).log(level, "%s", event, extra=fields)


def environment(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the replicator's environment, without credentials: other users can read an environment."""
    passed = {
        "spark_master": settings.spark_master,
        "spark_driver_memory": settings.spark_driver_memory,
        "executor_config": str(settings.executor_config or ""),
        "pipeline_memory": settings.pipeline_memory,
        "pipeline_functions": settings.pipeline_functions or "",
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
