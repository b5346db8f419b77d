"""Ranges that are read ahead are returned in order, a few at a time, and an error in its place."""

from __future__ import annotations

import threading

import pytest

from headwater.table.read_ahead import read_ahead


def test_answers_come_in_the_order_of_the_questions() -> None:
    assert list(read_ahead(lambda key: key * key, range(20))) == [(key, key * key) for key in range(20)]
    assert list(read_ahead(lambda key: key, [])) == []


def test_no_more_is_asked_than_may_wait() -> None:
    asked: list[int] = []
    answers = read_ahead(lambda key: asked.append(key), range(100), ahead=3)
    next(answers)
    assert len(asked) <= 3
    answers.close()  # type: ignore[attr-defined]
    assert len(asked) <= 3


def test_several_are_read_at_once() -> None:
    barrier = threading.Barrier(2)
    assert len(list(read_ahead(lambda key: barrier.wait(60), range(4), ahead=2))) == 4


def test_an_error_is_raised_after_what_was_read_before_it() -> None:
    def read(key: int) -> int:
        if key == 2:
            raise OSError("gone")
        return key

    answers = read_ahead(read, range(5))
    assert [next(answers), next(answers)] == [(0, 0), (1, 1)]
    with pytest.raises(OSError, match="gone"):
        next(answers)
