"""Tests of record_fields."""

from __future__ import annotations

import logging
from typing import ClassVar

from headwater.record_fields import fields_of, named_fields, shown_fields


def test_only_the_caller_s_own_fields_are_shown() -> None:
    record = logging.makeLogRecord({"msg": "folded", "stream": "ORDERS", "why": "two words", "n": 3})
    assert fields_of(record) == {"stream": "ORDERS", "why": "two words", "n": 3}
    assert shown_fields(record) == ' stream=ORDERS why="two words" n=3'
    assert shown_fields(logging.makeLogRecord({"msg": "plain"})) == ""


class Named:
    """Something that a record is about."""

    log_fields: ClassVar = {"stream": "ARCHIVE", "source": "ORDERS"}


def test_the_stream_and_source_that_a_text_names_are_fields() -> None:
    about = logging.makeLogRecord({"msg": "%s: copying again", "args": (Named(),)})
    assert named_fields(about) == {"stream": "ARCHIVE", "source": "ORDERS"}
    stream = logging.makeLogRecord({"msg": "stream %s: %s", "args": ("stream X: ORDERS", "the disk is full")})
    assert named_fields(stream) == {"stream": "stream X: ORDERS"}
    for plain in ("stream X: full", "folded %s"):
        record = logging.makeLogRecord({"msg": plain, "args": ("ORDERS",) * plain.count("%")})
        assert named_fields(record) == {}
