"""Tests of meters."""

from __future__ import annotations

from headwater.meters import Histogram, Meters


def test_a_histogram_counts_values_up_to_each_bound() -> None:
    histogram = Histogram((1.0, 5.0))
    for value in (0.5, 1.0, 1.1, 5.0, 7.0):
        histogram.observe(value)
    assert histogram.cumulative() == [2, 4, 5]
    assert histogram.count == 5
    assert histogram.total == 14.6


def test_a_value_may_count_for_many_messages() -> None:
    histogram = Histogram((1.0,))
    histogram.observe(0.5, 10)
    assert (histogram.cumulative(), histogram.total) == ([10, 10], 5.0)


def test_a_group_counts_its_messages_once_and_its_sync_once() -> None:
    meters = Meters()
    meters.committed(messages=3, nbytes=100, disk_s=0.01, waited_s=0.02)
    meters.committed(messages=0, nbytes=20, disk_s=0.01, waited_s=0.02)  # acks alone
    assert (meters.stored_messages, meters.stored_bytes) == (3, 120)
    assert (meters.commits.count, meters.ack_latency.count) == (2, 3)
