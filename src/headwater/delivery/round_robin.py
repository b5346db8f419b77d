"""Round-robin scheduling of the consumers that deliver: one step per iteration of the event loop.

If all ran in one iteration, a request would wait for hundreds of consumers before it is even read.
"""

from __future__ import annotations

import asyncio
from collections import deque


class RoundRobin:
    """Grants turns in the order of the requests; a single consumer gets each at once."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        """Consumers that wait for their turn, the first one first."""
        self._taken = False
        """Whether a turn was granted in this iteration of the event loop."""

    async def next(self) -> None:
        """Return when it is the caller's turn to do one step."""
        loop = asyncio.get_running_loop()
        if self._taken:
            turn: asyncio.Future[None] = loop.create_future()
            self._waiting.append(turn)
            await turn
        else:
            self._taken = True
            loop.call_soon(self._pass_on)

    def _pass_on(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                # After the step that this triggers, so that the loop handles everything else in between.
                asyncio.get_running_loop().call_soon(self._pass_on)
                return
        self._taken = False
