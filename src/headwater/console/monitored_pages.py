"""Pages of an engine's monitoring port that the console asks for when a browser wants them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from headwater.console.sampler import SampledSite
from headwater.errors import Error

WHY_NOT = "no monitoring address is known: start the engine with --http-port; a plain nats-server has none"


async def asked_page(site: SampledSite, path: str, key: str, what: str) -> dict[str, Any]:
    """Return the JSON of a page that has a list under a key; raise a sentence if the engine has none."""
    monitoring = site.reader.monitoring
    if monitoring is None:
        raise Error(WHY_NOT)
    answer = await asyncio.to_thread(monitoring.json, path)
    if not isinstance(answer.get(key), list):
        said = answer.get("error")
        raise Error(
            said
            if isinstance(said, str)
            else f"this engine does not serve {what}: it is older than the console"
        )
    return answer


def moment(seconds: Any) -> str:
    """Return a time of an engine's answer in UTC; empty for what is no time."""
    try:
        return datetime.fromtimestamp(float(seconds), UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (TypeError, ValueError, OverflowError, OSError):
        return ""
