"""Turns among those who deliver: one step each time the event loop comes round.

Were all to go at once, a request would wait for hundreds of consumers before it is even read.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Turns:
    """Hands out turns in the order they are asked for; a lone consumer gets each at once."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._taken = False
        """Whether somebody had a turn since the loop last came round."""

    async def next(self) -> None:
        """Return when it is one's turn to do one step."""
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
                # Behind the step that this sets off, so that the loop sees to everything else between two.
                asyncio.get_running_loop().call_soon(self._pass_on)
                return
        self._taken = False
