"""Where each public name of the package is defined; it is imported when it is first used.

This keeps `import headwater` fast, and commands load only what they need. `__init__.pyi` shows the same names
to type checkers.
"""

from __future__ import annotations

import importlib
from typing import Any

PLACES = {
    "AsyncClient": "headwater.client.async_client",
    "CatchUpError": "headwater.client.catch_up",
    "Lake": "headwater.lake.lake",
    "LocalEngine": "headwater.engine",
    "PendingClient": "headwater.client.connecting",
    "Phase": "headwater.model.progress",
    "StoredStream": "headwater.lake.lake",
    "StreamInfo": "headwater.client.stream_info",
    "SyncClient": "headwater.client.sync_client",
    "UpstreamGap": "headwater.client.stream_info",
    "UpstreamInfo": "headwater.client.stream_info",
    "connect": "headwater.client.connecting",
    "read": "headwater.lake.scanning",
    "scan": "headwater.lake.scanning",
    "serve": "headwater.engine",
}


def names() -> list[str]:
    """Return the public names, as `dir` and the completion of a notebook show them."""
    return sorted([*PLACES, "Error", "__version__"])


def find(name: str) -> Any:
    """Return a public name of the package."""
    if name not in PLACES:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    return getattr(importlib.import_module(PLACES[name]), name)
