"""What is fetched ahead is fetched once, is bounded, and raises nothing in the background."""

from __future__ import annotations

import threading
from pathlib import Path

from headwater.errors import DiskError
from headwater.table.prefetch import MOST_IN_PROGRESS, Prefetch


def test_a_range_is_fetched_once_while_it_is_under_way() -> None:
    prefetch, go, fetched = Prefetch(), threading.Event(), []

    def fetch() -> None:
        assert go.wait(60)
        fetched.append(1)

    for _ in range(3):
        prefetch.begin("a", fetch)
    go.set()
    prefetch.wait("a")
    prefetch.wait("none")
    assert fetched == [1]


def test_there_is_a_bound_for_all_of_them() -> None:
    prefetch, go, fetched = Prefetch(), threading.Event(), []

    def fetch() -> None:
        assert go.wait(60)
        fetched.append(1)

    for number in range(3 * MOST_IN_PROGRESS):
        prefetch.begin(str(number), fetch)
    go.set()
    for number in range(3 * MOST_IN_PROGRESS):
        prefetch.wait(str(number))
    assert len(fetched) == MOST_IN_PROGRESS


def test_an_error_is_left_to_the_reader() -> None:
    prefetch = Prefetch()

    def fail() -> None:
        raise DiskError(Path("x"), "read", 5)

    prefetch.begin("a", fail)
    prefetch.wait("a")
