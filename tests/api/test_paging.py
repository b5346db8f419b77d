"""Pages begin where asked, end at their limit, and say so."""

from __future__ import annotations

import pytest

from headwater.api.paging import fitting, page


@pytest.mark.parametrize(
    ("offset", "shown", "said"),
    [(0, "abc", 0), (2, "cde", 2), (4, "e", 4), (5, "", 5), (99, "", 5), (-3, "abc", 0)],
)
def test_a_page_begins_at_the_offset_and_stays_inside(offset: int, shown: str, said: int) -> None:
    items, paging = page("abcde", offset, 3)
    assert items == shown
    assert paging == {"total": 5, "offset": said, "limit": 3}


def test_as_many_items_are_taken_as_fit_and_at_least_one() -> None:
    assert fitting([10, 10, 10], 30) == 3
    assert fitting([10, 10, 10], 29) == 2
    assert fitting([100, 10], 30) == 1
    assert fitting([], 30) == 0
