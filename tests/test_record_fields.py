"""Tests of record_fields."""

from __future__ import annotations

import logging

from headwater.record_fields import fields_of, shown_fields


def test_only_the_caller_s_own_fields_are_shown() -> None:
    record = logging.makeLogRecord({"msg": "folded", "stream": "ORDERS", "why": "two words", "n": 3})
    assert fields_of(record) == {"stream": "ORDERS", "why": "two words", "n": 3}
    assert shown_fields(record) == ' stream=ORDERS why="two words" n=3'
    assert shown_fields(logging.makeLogRecord({"msg": "plain"})) == ""
