"""Tests of backoff: waits double up to a limit, and start over after a success."""

from __future__ import annotations

from headwater.backoff import Backoff, wait_s


def test_waits_double_up_to_the_longest() -> None:
    assert [wait_s(failures, 0.5, 3.0) for failures in (0, 1, 2, 3, 4, 10_000)] == [0.5, 0.5, 1, 2, 3, 3]


def test_a_success_starts_over() -> None:
    waits = Backoff(1.0, 30.0)
    assert [waits.next_s() for _ in range(3)] == [1, 2, 4]
    waits.reset()
    assert (waits.next_s(), waits.failures) == (1.0, 1)


def test_a_long_run_starts_over() -> None:
    waits = Backoff(1.0, 30.0, settled_s=60.0)
    assert [waits.next_s(ran_s) for ran_s in (0, 60, 61, 0)] == [1, 2, 1, 2]
