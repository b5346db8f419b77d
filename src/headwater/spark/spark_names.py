"""Where each public name of `headwater.spark` is defined; it is imported when it is first used.

The package is also used without Spark, by `headwater.scan`.
"""

from __future__ import annotations

import importlib
from typing import Any

PLACES = {"decode": "headwater.spark.decoding", "register": "headwater.lake.spark_views"}


def find(name: str) -> Any:
    """Return a public name of the package."""
    if name not in PLACES:
        raise AttributeError(f"module 'headwater.spark' has no attribute {name!r}")
    return getattr(importlib.import_module(PLACES[name]), name)
