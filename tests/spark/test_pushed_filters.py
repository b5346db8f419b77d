"""Spark's filters restrict a selection, and never leave out a row that they select."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from headwater.model.message import Message
from headwater.spark.pushed_filters import pushed
from headwater.spark.range_reader import read_batches
from headwater.spark.read_range import ReadRange
from headwater.spark.selection import EVERYTHING, UNBOUNDED, ReadSelection
from spark.files import file_of

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
NOON_NS = int(NOON.timestamp()) * 1_000_000_000
SEQ, TIME, SUBJECT = ("seq",), ("time",), ("subject",)


def at(micros: int) -> datetime:
    """Return a time after noon."""
    return NOON + timedelta(microseconds=micros)


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> ReadRange:
    """Six messages, one each microsecond and half a microsecond later."""
    names = [b"orders.eu", b"orders.us", b"orders.eu.de", b"ordersx", b"returns", b"orders.\xff"]
    messages = [Message(seq, NOON_NS + seq * 1000 + 500, name, b"", b"") for seq, name in enumerate(names, 1)]
    folder: Path = tmp_path_factory.mktemp("files")
    return ReadRange(1, 6, file_of(folder, messages))


CASES: list[tuple[Filter, list[int]]] = [
    (EqualTo(SEQ, 3), [3]),
    (EqualNullSafe(SEQ, 3), [3]),
    (GreaterThan(SEQ, 4), [5, 6]),
    (GreaterThanOrEqual(SEQ, 4), [4, 5, 6]),
    (LessThan(SEQ, 2), [1]),
    (LessThanOrEqual(SEQ, 2), [1, 2]),
    (In(SEQ, (2, 5, 99, None)), [2, 5]),
    (EqualTo(TIME, at(2)), [2]),
    (GreaterThan(TIME, at(4)), [5, 6]),
    (GreaterThanOrEqual(TIME, at(4)), [4, 5, 6]),
    (LessThan(TIME, at(3)), [1, 2]),
    (LessThanOrEqual(TIME, at(3)), [1, 2, 3]),
    (In(TIME, (at(1), at(6))), [1, 6]),
    (GreaterThan(TIME, at(4).astimezone(None)), [5, 6]),
    (EqualTo(SUBJECT, "orders.eu"), [1]),
    (In(SUBJECT, ("orders.us", "returns", None)), [2, 5]),
    (StringStartsWith(SUBJECT, "orders."), [1, 2, 3]),
    (StringStartsWith(SUBJECT, "orders"), [1, 2, 3, 4]),
    (EqualTo(SUBJECT, "\ufffdorders.ÿ"), [6]),
]
WITHOUT_EFFECT: list[Filter] = [
    IsNotNull(SEQ),
    Not(EqualTo(SEQ, 3)),
    EqualTo(("headers", "N"), "x"),
    EqualTo(("data",), b"x"),
    EqualTo(SEQ, None),
    EqualTo(SEQ, "3"),
    EqualTo(TIME, datetime(2026, 11, 16)),
    EqualTo(SUBJECT, 5),
    In(SEQ, (1, "x")),
    In(TIME, (datetime(2026, 11, 16),)),
    StringContains(SUBJECT, "eu"),
    StringStartsWith(("data",), "x"),
]


def read(part: ReadRange, selection: ReadSelection) -> list[int]:
    """Return the sequences that a selection reads."""
    wanted = part.within(selection.first_seq, selection.last_seq)
    batches = read_batches(wanted, None, ["seq"], selection)
    return [seq for batch in batches for seq in batch["seq"].to_pylist()]


@pytest.mark.parametrize(("each", "seqs"), CASES, ids=str)
def test_a_filter_selects_the_rows_that_it_matches(part: ReadRange, each: Filter, seqs: list[int]) -> None:
    assert read(part, pushed(EVERYTHING, [each])) == seqs


@pytest.mark.parametrize("each", WITHOUT_EFFECT, ids=str)
def test_other_filters_are_left_to_spark(each: Filter) -> None:
    assert pushed(EVERYTHING, [each]) is EVERYTHING


def test_comparisons_of_subjects_read_no_less_than_they_match(part: ReadRange) -> None:
    for kind in (GreaterThan, GreaterThanOrEqual):
        assert set(read(part, pushed(EVERYTHING, [kind(SUBJECT, "ordersx")]))) >= {5, 6}
    for other in (LessThan, LessThanOrEqual):
        assert read(part, pushed(EVERYTHING, [other(SUBJECT, "orders.eu")])) == [1]


def test_several_filters_and_the_options_hold_together(part: ReadRange) -> None:
    filters: list[Any] = [GreaterThan(SEQ, 1), StringStartsWith(SUBJECT, "orders."), LessThan(TIME, at(3))]
    assert read(part, pushed(EVERYTHING, filters)) == [2]
    assert read(part, pushed(ReadSelection(patterns=("*.*.*",)), filters[:2])) == [3]


def test_filters_on_subjects_become_patterns_for_the_api() -> None:
    def patterns(each: Filter) -> tuple[str, ...]:
        return pushed(EVERYTHING, [each]).api_filters()

    assert patterns(EqualTo(SUBJECT, "orders.eu")) == ("orders.eu",)
    assert patterns(In(SUBJECT, ("a", "b"))) == ("a", "b")
    assert patterns(StringStartsWith(SUBJECT, "orders.e")) == ("orders.>",)
    assert patterns(StringStartsWith(SUBJECT, "orders")) == ()
    assert patterns(EqualTo(SUBJECT, "orders.*")) == ()
    assert patterns(EqualTo(SUBJECT, "not a subject")) == ()


def test_bounds_beyond_all_sequences_and_times_are_harmless(part: ReadRange) -> None:
    for each in (
        LessThan(SEQ, -5),
        GreaterThan(SEQ, UNBOUNDED * 2),
        GreaterThan(TIME, datetime.max.replace(tzinfo=UTC)),
    ):
        assert read(part, pushed(EVERYTHING, [each])) == []
