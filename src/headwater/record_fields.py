"""The fields of a log record that its caller passed as `extra`, and how a line shows them."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def fields_of(record: logging.LogRecord) -> Mapping[str, Any]:
    """Return the fields passed as `extra`."""
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def shown_fields(record: logging.LogRecord) -> str:
    """Return these fields as text, such as ` stream=ORDERS messages=200`; empty if there are none."""
    return "".join(f" {key}={_plain(value)}" for key, value in fields_of(record).items())


def _plain(value: Any) -> str:
    """Return a value as one word; others are quoted as JSON."""
    text = str(value)
    return json.dumps(text) if not text or any(c.isspace() or c in '"=' for c in text) else text
