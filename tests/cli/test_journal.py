"""Log lines as text and as JSON."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from headwater.cli.journal import start_journal


@pytest.fixture(autouse=True)
def root_as_before() -> Iterator[None]:
    """Put back the handlers of the test run."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers = []
    yield
    root.handlers, root.level = handlers, level


def written(form: str, level: str = "info") -> str:
    """Return what a few records look like."""
    stream = io.StringIO()
    start_journal(level, form, stream)
    log = logging.getLogger("headwater.stream")
    log.debug("looked")
    log.info("folded", extra={"stream": "ORDERS", "why": "two words"})
    try:
        raise ValueError("torn")
    except ValueError:
        log.exception("failed")
    return stream.getvalue()


def test_a_text_line_has_time_level_logger_event_and_fields() -> None:
    line = written("text").splitlines()[0]
    time, rest = line.split(" ", 1)
    assert time.endswith("Z")
    assert rest == 'info headwater.stream: folded stream=ORDERS why="two words"'


def test_a_json_line_is_one_object_with_the_traceback_inside() -> None:
    folded, failed = (json.loads(line) for line in written("json").splitlines())
    assert (folded["level"], folded["event"], folded["stream"]) == ("info", "folded", "ORDERS")
    assert "ValueError: torn" in failed["traceback"]


def test_less_grave_records_than_the_level_are_left_out() -> None:
    assert "looked" not in written("text")
    assert "looked" in written("text", "debug")
    assert "folded" not in written("text", "error")


def test_a_json_line_has_a_field_for_the_stream_that_it_names() -> None:
    stream = io.StringIO()
    start_journal("info", "json", stream)
    logging.getLogger("headwater.stream").error("stream %s: %s", "ORDERS", "the disk is full")
    line = json.loads(stream.getvalue())
    assert (line["stream"], line["event"]) == ("ORDERS", "stream ORDERS: the disk is full")
