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


def named_fields(record: logging.LogRecord) -> Mapping[str, str]:
    """Return the stream and the source that a record's text names, so that a search need not parse it.

    They are found by the record's template and arguments, never in the text: names may contain anything.
    """
    arguments = record.args if isinstance(record.args, tuple) else ()
    for argument in arguments:
        if fields := getattr(argument, "log_fields", None):
            return dict(fields)
    if arguments and str(record.msg).startswith("stream %s"):
        return {"stream": str(arguments[0])}
    return {}


def shown_fields(record: logging.LogRecord) -> str:
    """Return these fields as text, such as ` stream=ORDERS messages=200`; empty if there are none."""
    return "".join(f" {key}={_plain(value)}" for key, value in fields_of(record).items())


def _plain(value: Any) -> str:
    """Return a value as one word; others are quoted as JSON."""
    text = str(value)
    return json.dumps(text) if not text or any(c.isspace() or c in '"=' for c in text) else text
