"""The process's log lines: an event with its fields as key=value, or one JSON object per line.

Other modules log with `logging.getLogger(__name__).info("folded", extra={"stream": name, "messages": n})`.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

from headwater.record_fields import fields_of, named_fields, shown_fields


def start_journal(level: str, form: str, stream: TextIO | None = None) -> None:
    """Write log records of at least this level to standard error, as text or as JSON."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLine() if form == "json" else TextLine())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class TextLine(logging.Formatter):
    """`2026-11-15T07:51:18.123Z info headwater.stream.fold: folded stream=ORDERS messages=200`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, followed by its traceback if there is one."""
        said = shown_fields(record)
        line = f"{_time(record)} {record.levelname.lower()} {record.name}: {record.getMessage()}{said}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonLine(logging.Formatter):
    """One JSON object: time, level, logger, event, the stream and source that it names, its own fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **named_fields(record),
            **fields_of(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _time(record: logging.LogRecord) -> str:
    """Return the record's time in UTC, to the millisecond."""
    return (
        datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
