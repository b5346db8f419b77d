"""The difference between two JSON objects as a merge patch (RFC 7396): what a live page is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]


def merge_patch(before: Json, after: Json) -> dict[str, Any]:
    """Return what must be merged into `before` for `after`; None removes a key, and stands for no value."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            if inside := merge_patch(old, value):
                patch[key] = inside
        elif value != old:
            patch[key] = value
    return patch
