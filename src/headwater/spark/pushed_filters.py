"""Spark's filters on `seq`, `time` and `subject` as a selection.

Spark still evaluates every filter itself. So a filter that is left out here, or that selects too much, costs
time only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from headwater.model import subject as subjects
from headwater.spark.selection import UNBOUNDED, ReadSelection
from headwater.table.schema import TIME

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = "\U0010ffff"


def pushed(selection: ReadSelection, filters: Iterable[Filter]) -> ReadSelection:
    """Return the selection restricted by all filters that it can express."""
    for each in filters:
        name, value = _operands(each)
        if name == "seq":
            selection = _by_seq(selection, each, value)
        elif name == "time":
            selection = _by_time(selection, each, value)
        elif name == "subject":
            selection = _by_subject(selection, each, value)
    return selection


def _operands(each: Filter) -> tuple[str, Any]:
    """Return the column and the literal; an empty name for filters that are not used."""
    path: Sequence[str] = getattr(each, "attribute", ())
    value = getattr(each, "value", None)
    return (path[0], value) if len(path) == 1 and value is not None else ("", None)


def _by_seq(selection: ReadSelection, each: Filter, value: Any) -> ReadSelection:
    if isinstance(each, In):
        numbers = [one for one in value if isinstance(one, int)]
        if not numbers or len(numbers) < len([one for one in value if one is not None]):
            return selection
        wanted = pc.field("seq").isin(pa.array(numbers, pa.int64()))
        return selection.within(min(numbers), max(numbers)).matching(wanted)
    if not isinstance(value, int):
        return selection
    first, last = _bounds(each, value)
    return selection.within(max(first, 1), min(last, UNBOUNDED))


def _bounds(each: Filter, value: int) -> tuple[int, int]:
    """Return the least and the greatest number that a comparison selects."""
    if isinstance(each, EqualTo | EqualNullSafe):
        return value, value
    if isinstance(each, GreaterThan):
        return value + 1, UNBOUNDED
    if isinstance(each, GreaterThanOrEqual):
        return value, UNBOUNDED
    if isinstance(each, LessThan):
        return 0, value - 1
    if isinstance(each, LessThanOrEqual):
        return 0, value
    return 0, UNBOUNDED


def _by_time(selection: ReadSelection, each: Filter, value: Any) -> ReadSelection:
    """Restrict the times; the column is in microseconds, the messages' times in nanoseconds."""
    if isinstance(each, In):
        moments = [_micros(one) for one in value if one is not None]
        known = [one for one in moments if one is not None]
        if not known or len(known) < len(moments):
            return selection
        wanted = pc.field("time").isin(pa.array(known, pa.int64()).cast(TIME))
        return selection.during(min(known) * 1000, max(known) * 1000 + 1000).matching(wanted)
    micros = _micros(value)
    if micros is None:
        return selection
    first, last = _bounds(each, micros)
    return selection.during(first * 1000, min(last * 1000 + 1000, UNBOUNDED))


def _micros(value: Any) -> int | None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - _EPOCH) // timedelta(microseconds=1)


def _by_subject(selection: ReadSelection, each: Filter, value: Any) -> ReadSelection:
    field = pc.field("subject")
    if isinstance(each, In):
        texts = [one for one in value if isinstance(one, str)]
        if not texts or len(texts) < len([one for one in value if one is not None]):
            return selection
        return selection.matching(field.isin(pa.array(texts, pa.string())), _literals(texts))
    if not isinstance(value, str):
        return selection
    if isinstance(each, EqualTo | EqualNullSafe):
        return selection.matching(field == value, _literals([value]))
    if isinstance(each, StringStartsWith):
        inside = (field >= value) & (field <= value + _LAST)
        return selection.matching(inside, _beginning(value))
    if isinstance(each, GreaterThan | GreaterThanOrEqual):
        return selection.matching(field >= value)
    if isinstance(each, LessThan | LessThanOrEqual):
        return selection.matching(field <= value)
    return selection


def _literals(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the subjects as patterns; none if one of them is no subject."""
    return tuple(texts) if all(map(_is_plain, texts)) else ()


def _beginning(text: str) -> tuple[str, ...]:
    """Return a pattern that matches every subject which begins with a text, cut after the last dot."""
    whole = text.rpartition(".")[0]
    return (f"{whole}.>",) if whole and _is_plain(whole) else ()


def _is_plain(text: str) -> bool:
    return subjects.valid_literal(text) and not text.startswith("\ufffd")
