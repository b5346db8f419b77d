"""Gaps are kept one by one as far as there is room, and in sums for ever."""

from __future__ import annotations

import msgspec
import pytest

from headwater.errors import NewerFormatError
from headwater.model.gaps import PURGE, RE_CREATED, RECENT, RETENTION, Gap, Gaps, gaps_name


def test_nothing_stored_is_no_gap() -> None:
    assert Gaps.decode(b"") == Gaps()


def test_gaps_come_back_as_they_were() -> None:
    gaps = Gaps().with_gap(Gap(3, 8, 100, RETENTION)).restarted(200)
    assert Gaps.decode(gaps.encode()) == gaps
    assert (gaps.count, gaps.sequences, gaps.restarts, gaps.restarted_ns) == (1, 6, 1, 200)


def test_a_gap_that_begins_where_another_ends_extends_it() -> None:
    gaps = Gaps().with_gap(Gap(3, 8, 100, RETENTION)).with_gap(Gap(9, 10, 200, RETENTION))
    assert gaps == Gaps((Gap(3, 10, 200, RETENTION),), count=1, sequences=8)


def test_another_place_or_another_reason_is_another_gap() -> None:
    gaps = Gaps().with_gap(Gap(3, 8, 100, RETENTION))
    assert gaps.with_gap(Gap(10, 10, 200, RETENTION)).count == 2
    assert gaps.with_gap(Gap(9, 10, 200, PURGE)).count == 2
    gap = Gaps().with_gap(Gap(3, 8, 100, RE_CREATED))
    assert gap.with_gap(Gap(9, 10, 200, RE_CREATED)).count == 2, "sequences of two different streams"


def test_the_reason_of_an_older_release_is_read_as_todays() -> None:
    stored = Gaps().with_gap(Gap(3, 8, 100, "made anew")).with_gap(Gap(9, 9, 200, PURGE))
    assert [gap.reason for gap in Gaps.decode(stored.encode()).recent] == [RE_CREATED, PURGE]


def test_old_gaps_are_left_to_the_sums() -> None:
    gaps = Gaps()
    for number in range(RECENT + 5):
        gaps = gaps.with_gap(Gap(number * 10 + 1, number * 10 + 2, number, PURGE))
    assert len(gaps.recent) == RECENT
    assert gaps.recent[-1].first_seq == (RECENT + 4) * 10 + 1
    assert (gaps.count, gaps.sequences) == (RECENT + 5, 2 * (RECENT + 5))


def test_gaps_and_cursor_of_an_upstream_have_different_names() -> None:
    assert gaps_name("O > >") != "O > >"


def test_gaps_of_earlier_releases_are_read_and_those_of_later_ones_refused() -> None:
    gaps = Gaps().with_gap(Gap(3, 8, 100, RETENTION))
    assert Gaps.decode(msgspec.msgpack.encode(gaps)) == gaps
    with pytest.raises(NewerFormatError, match="has version 3, this Headwater knows up to 2"):
        Gaps.decode(b"\x03" + gaps.encode()[1:])
