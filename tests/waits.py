"""The wait of all tests: for an event, up to three minutes, and never for time to pass."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator

PATIENCE_S = 180.0
"""So long that it matters only when something is broken."""
FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.04
"""Each look costs the servers CPU time that the tests beside this one need."""
LONGEST_REST_S = 0.2
"""How long a wait rests at most after a look that took long: twice as long as the look took."""


def pauses() -> Iterator[float]:
    """Yield how long to wait, in seconds, between one look and the next: longer and longer."""
    pause_s = FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(pause_s * 1.2, LONGEST_PAUSE_S)


async def until(
    holds: Callable[[], object],
    what: str = "",
    tell: Callable[[], str] = lambda: "",
    patience_s: float = PATIENCE_S,
) -> None:
    """Return once a condition holds, which may be awaitable; fail with a description after `patience_s`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    for pause_s in pauses():
        began = loop.time()
        found = holds()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return
        assert loop.time() < deadline, f"not in {patience_s:g} s: {what}\n{tell()}"
        await asyncio.sleep(max(pause_s, min(2 * (loop.time() - began), LONGEST_REST_S)))
