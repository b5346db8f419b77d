"""A client that wants nothing but its answers, and notices when an engine keeps it waiting."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path

from headwater.bus.connection import Connection

PAUSE_S = 0.02
ANSWER_S = 120.0
STALL_S = 1.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def loop_seconds(pid: int) -> float:
    """Return how long the thread of an event loop has worked; waiting does not count."""
    fields = Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


class Bystander:
    """Asks for the account, and publishes, over and over, one request at a time."""

    def __init__(self, connection: Connection, pid: int) -> None:
        self.asked = 0
        self.longest_s = 0.0
        """The longest wait for an answer, whatever it was for."""
        self.longest_held_s = 0.0
        """The most that the engine's loop worked on something else during one wait."""
        self._connection = connection
        self._pid = pid
        self._asking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Ask from now on."""
        self._asking = asyncio.create_task(self._ask(), name="bystander")

    async def stop(self) -> None:
        """Stop asking; raise the error that occurred, if any."""
        assert self._asking is not None
        if self._asking.done():
            self._asking.result()
        self._asking.cancel()
        with suppress(asyncio.CancelledError):
            await self._asking

    @property
    def is_stalled(self) -> bool:
        """Return whether an answer took more than a second because the loop was busy for so long.

        The machine may be busy with something else: a wait counts only as far as the loop worked during it.
        """
        return min(self.longest_s, self.longest_held_s) > STALL_S

    async def _ask(self) -> None:
        while True:
            for subject in (b"$JS.API.INFO", b"quiet.corner"):
                began, worked = time.monotonic(), loop_seconds(self._pid)
                await self._connection.request(subject, b"", ANSWER_S)
                waited = time.monotonic() - began
                if waited > self.longest_s:
                    self.longest_s = waited
                if waited > STALL_S:
                    self.longest_held_s = max(self.longest_held_s, loop_seconds(self._pid) - worked)
                self.asked += 1
            await asyncio.sleep(PAUSE_S)
