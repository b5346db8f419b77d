"""Durations and sizes in config files: text such as "30d" and "1GiB" becomes the numbers of the API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwater.cli.phrases import read_duration, read_size
from headwater.cli.session import Json
from headwater.errors import SettingsError

DURATIONS = frozenset(
    (
        "ack_wait",
        "backoff",
        "duplicate_window",
        "idle_heartbeat",
        "inactive_threshold",
        "max_age",
        "max_expires",
        "priority_timeout",
        "subject_delete_marker_ttl",
    )
)
"""Fields of streams and consumers in nanoseconds."""
SIZES = frozenset(("max_bytes", "max_msg_size"))
"""Fields in bytes."""


def without_units(config: Json) -> Json:
    """Return a config whose durations and sizes are numbers; the nats command accepts only those."""
    return {name: _value(name, value) for name, value in config.items()}


def _value(name: str, value: Any) -> Any:
    if name == "consumer_limits" and isinstance(value, dict):
        return without_units(value)
    if name in DURATIONS:
        numbers = "nanoseconds as a number, or text such as 30s, 12h or 7d"
        return _numbers(name, value, read_duration, numbers)
    if name in SIZES:
        return _numbers(name, value, read_size, "bytes as a number, or text such as 64KB or 1GiB")
    return value


def _numbers(name: str, value: Any, read: Callable[[str], int], accepted: str) -> Any:
    """Return a text as a number, and each text of a list; other values as they are."""
    if isinstance(value, list):
        return [_numbers(name, each, read, accepted) for each in value]
    if not isinstance(value, str):
        return value
    try:
        return read(value)
    except ValueError:
        raise SettingsError(f"{name} is {value!r}: write {accepted}") from None
