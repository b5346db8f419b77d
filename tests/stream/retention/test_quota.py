"""What all streams may have open together is counted together."""

from __future__ import annotations

from headwater.stream.publishing.atomic_batch import MAX_OPEN, MAX_OPEN_IN_ALL, AtomicBatches
from headwater.stream.retention.quota import Quota
from stream.streams import headers

FIRST = headers(Nats_Batch_Sequence="1")


def opened(batches: AtomicBatches, count: int) -> list[str]:
    """Begin so many batches; return the names of the refusals."""
    steps = [batches.offer(b"b%d" % n, b"s", FIRST, b"", 1) for n in range(count)]
    return [step.error.name for step in steps if step.error]


def test_streams_fill_one_quota_and_make_room_for_each_other() -> None:
    quota = Quota()
    streams = [AtomicBatches(quota) for _ in range(MAX_OPEN_IN_ALL // MAX_OPEN)]
    assert [opened(stream, MAX_OPEN) for stream in streams] == [[]] * len(streams)
    assert quota.open == MAX_OPEN_IN_ALL
    newcomer = AtomicBatches(quota)
    assert opened(newcomer, 1) == ["atomic_publish_too_many_inflight"]
    streams[0].clear()
    assert quota.open == MAX_OPEN_IN_ALL - MAX_OPEN
    assert opened(newcomer, 1) == []


def test_engines_do_not_share_a_quota() -> None:
    first, second = Quota(), Quota()
    opened(AtomicBatches(first), 3)
    assert (first.open, second.open) == (3, 0)
