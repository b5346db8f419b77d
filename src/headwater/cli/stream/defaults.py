"""The config of a stream where nothing else is said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEFAULTS: Mapping[str, Any] = {
    "retention": "limits",
    "storage": "file",
    "discard": "old",
    "num_replicas": 1,
    "max_msgs": -1,
    "max_msgs_per_subject": -1,
    "max_bytes": -1,
    "max_age": 0,
    "max_msg_size": -1,
    "max_consumers": -1,
    "allow_direct": True,
}
