"""Cursors are compared with origins of the same store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyroaring import BitMap64

from headwater.model.cursor import LOST, Cursor
from headwater.model.stream import Retention, StreamConfig
from headwater.model.upstream import StreamSource
from headwater.store.copy_check import OpenedStream, compare_copies

SOURCE = StreamSource(name="ORIGIN")


def opened(name: str, **fields: Any) -> OpenedStream:
    given = {"identity": name, "first_seq": 1, "last_seq": 10, "deleted": BitMap64(), "cursors": {}}
    config = fields.pop("config", StreamConfig(name=name))
    return OpenedStream(account="$G", config=config, home=Path(name), **{**given, **fields})


def target(cursor: Cursor) -> OpenedStream:
    config = StreamConfig(name="TARGET", sources=(SOURCE,))
    return opened("TARGET", config=config, cursors={SOURCE.index_name: cursor})


def said(cursor: Cursor, origin: OpenedStream) -> list[tuple[bool, str]]:
    return [(found.is_problem, found.what) for _, found in compare_copies([target(cursor), origin])]


def test_a_cursor_within_its_origin_is_fine() -> None:
    assert said(Cursor("ORIGIN", 10), opened("ORIGIN")) == []
    assert said(Cursor(), opened("ORIGIN")) == []
    assert said(Cursor("another", 99), opened("ORIGIN")) == []


def test_a_cursor_beyond_its_origin_is_a_problem() -> None:
    ((is_problem, what),) = said(Cursor("ORIGIN", 11), opened("ORIGIN"))
    assert is_problem
    assert what == "'ORIGIN' was copied up to sequence 11, but it ends at 10"


def test_what_a_queue_removed_before_it_was_copied_is_noted() -> None:
    config = StreamConfig(name="ORIGIN", retention=Retention.WORKQUEUE)
    queue = opened("ORIGIN", config=config, first_seq=6, deleted=BitMap64([8]))
    ((is_problem, what),) = said(Cursor("ORIGIN", 3), queue)
    assert not is_problem
    assert what.startswith("'ORIGIN' has removed 3 messages after sequence 3")
    assert said(Cursor("ORIGIN", 8), queue) == []
    assert said(Cursor("ORIGIN", 3), opened("ORIGIN", first_seq=6)) == []


def test_a_cursor_that_was_lost_is_a_problem_until_a_start_is_set() -> None:
    ((is_problem, what),) = said(Cursor(LOST, 0), opened("ORIGIN"))
    assert is_problem
    assert "was lost with a damaged checkpoint" in what
