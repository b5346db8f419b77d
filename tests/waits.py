"""The wait of all tests: for what must come, up to a minute, and never for time to pass."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

PATIENCE_S = 60.0
"""So long that it matters only when something is broken."""
_PAUSE_S = 0.005


async def until(
    holds: Callable[[], object],
    what: str = "",
    tell: Callable[[], str] = lambda: "",
    patience_s: float = PATIENCE_S,
) -> None:
    """Return once something holds, awaited where it must be; fail, and tell, when it never does."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    while True:
        found = holds()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return
        assert loop.time() < deadline, f"not in {patience_s:g} s: {what}\n{tell()}"
        await asyncio.sleep(_PAUSE_S)
