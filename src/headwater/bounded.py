"""Work that is waited for, but not without end: a disk that hangs must not keep an engine from ending."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)

CLOSE_WITHIN_S = 30.0
"""How long closing a part of the engine may take."""


async def ends(work: Coroutine[Any, Any, None], what: str, within_s: float | None = None) -> bool:
    """Return whether work ended in time; what did not is logged, cancelled, and not waited for."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=CLOSE_WITHIN_S if within_s is None else within_s)
    finally:
        if not task.done():
            task.cancel()
    if task.done():
        task.result()
        return True
    logger.error("%s did not end in time; a disk may not answer", what)
    return False
