"""A filter is compared with what is known of a file: only what cannot match is passed over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc
import pytest

from headwater.spark.guarantee import may_match, of_file, of_range
from headwater.table.datafile import DataFile

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
NOON_NS = int(NOON.timestamp()) * 1_000_000_000
FILE = DataFile("x", 0, 10, 101, 110, 1000, NOON_NS, NOON_NS + 5_000_000_000, "b.a", "b.z")


@pytest.mark.parametrize(
    "wanted",
    [
        pc.field("seq") == 105,
        pc.field("seq") > 109,
        pc.field("subject") == "b.k",
        pc.field("time") >= NOON + timedelta(seconds=5),
        pc.field("data") == b"x",
        (pc.field("seq") > 500) | (pc.field("subject") == "b.k"),
    ],
)
def test_what_may_match_is_kept(wanted: pc.Expression) -> None:
    assert may_match(wanted, of_file(FILE))


@pytest.mark.parametrize(
    "wanted",
    [
        pc.field("seq") == 111,
        pc.field("seq") < 101,
        pc.field("subject") == "a.k",
        pc.field("time") > NOON + timedelta(seconds=6),
        (pc.field("seq") > 500) | (pc.field("subject") == "c"),
    ],
)
def test_what_cannot_match_is_passed_over(wanted: pc.Expression) -> None:
    assert not may_match(wanted, of_file(FILE))


def test_without_a_filter_everything_is_kept() -> None:
    assert may_match(None, of_range(1, 2))
