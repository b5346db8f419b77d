"""Progress is the part of a catch-up that is done."""

from __future__ import annotations

import pytest

from headwater.model.progress import Phase, Progress


@pytest.mark.parametrize(
    ("began", "at", "last", "done"),
    [(0, 0, 0, 1.0), (0, 0, 100, 0.0), (0, 25, 100, 0.25), (50, 75, 100, 0.5), (100, 100, 100, 1.0)],
)
def test_the_part_that_is_done(began: int, at: int, last: int, done: float) -> None:
    progress = Progress(began_seq=began, seq=at, origin_last_seq=last)
    assert progress.done == pytest.approx(done)


def test_an_origin_that_went_back_does_not_make_it_more_than_all() -> None:
    assert Progress(began_seq=0, seq=200, origin_last_seq=100).done == 1.0


def test_one_that_nothing_is_known_of_is_starting() -> None:
    assert Progress().phase is Phase.STARTING
