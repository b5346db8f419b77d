"""Limits of streams with tables in a bucket: publishing does not wait for it, and they hold in the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import DiskError
from headwater.stream.retention import late_limits
from headwater.stream.stream import Stream
from seaweed import SeaweedServer
from stream.bucket_streams import BucketWorkshop
from stream.streams import config_of, publish, seqs_of
from waits import until


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch, seaweed_server: SeaweedServer) -> None:
    for name, value in seaweed_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(late_limits, "RETRY_MOST_S", 0.2)


@pytest.fixture
def workshop(tmp_path: Path, seaweed_server: SeaweedServer) -> Iterator[BucketWorkshop]:
    workshop = BucketWorkshop(tmp_path, seaweed_server)
    yield workshop
    workshop.objects.heal()
    workshop.close()


async def fill(workshop: BucketWorkshop, stream: Stream, *subjects: bytes) -> None:
    """Have messages in the bucket, and nothing of them in memory."""
    await publish(stream, *((subject, b"old") for subject in subjects))
    await stream.folder.fold()
    workshop.forget()


async def test_a_full_stream_takes_messages_while_reads_hang_and_is_evicted_later(
    workshop: BucketWorkshop,
) -> None:
    async with workshop.stream(max_msgs=10) as stream:
        await fill(workshop, stream, *[b"a"] * 5)
        await fill(workshop, stream, *[b"b"] * 5)
        workshop.hang()
        await publish(stream, *((b"c", b"new") for _ in range(8)))
        assert (await stream.reading.state()).messages == 18
        workshop.objects.heal()
        await until(lambda: stream.reading.first_seq == 9, "the oldest are evicted")
        await stream.publishing.settled()
        assert await seqs_of(stream) == list(range(9, 19))


@pytest.mark.parametrize("config", [{"max_msgs": 10}, {"max_bytes": 400}])
async def test_limits_that_an_outage_kept_back_hold_after_a_restart(
    workshop: BucketWorkshop, config: dict[str, Any]
) -> None:
    async with workshop.stream(**config) as stream:
        await fill(workshop, stream, *[b"a"] * 10)
        await stream.retention.remove(1)
        workshop.forget()
        workshop.refuse()
        await publish(stream, *((b"c", b"new") for _ in range(30)))
        assert (await stream.reading.state()).messages > 20
        with pytest.raises(DiskError):
            await stream.folder.fold()
    async with workshop.stream(**config) as stream:
        await publish(stream, (b"c", b"new"))
        workshop.objects.heal()
        limit = config.get("max_msgs") or 400 // 34
        await until(lambda: stream.reading.live_between(1, 100) == limit, "the limit holds")
        await stream.publishing.settled()
        assert await seqs_of(stream) == list(range(42 - limit, 42))


async def test_a_long_limit_of_a_subject_delays_nothing(workshop: BucketWorkshop) -> None:
    async with workshop.stream(max_msgs_per_subject=70) as stream:
        await fill(workshop, stream, *([b"a"] * 70 + [b"b"] * 70))
        workshop.hang()
        await publish(stream, (b"a", b"new"), (b"b", b"new"), (b"c", b"new"), (b"a", b"new"))
        assert stream.reading.subject_counts(">") == {b"a": 72, b"b": 71, b"c": 1}
        workshop.objects.heal()
        limits = {b"a": 70, b"b": 70, b"c": 1}
        await until(lambda: stream.reading.subject_counts(">") == limits, "the limits hold")
        await stream.publishing.settled()
        assert not any(map(stream.reading.is_live, (1, 2, 71)))
        assert all(map(stream.reading.is_live, (3, 72)))


async def test_lowered_limits_are_enforced_before_the_answer_if_the_bucket_answers(
    workshop: BucketWorkshop,
) -> None:
    async with workshop.stream(max_msgs_per_subject=100) as stream:
        await fill(workshop, stream, *([b"a"] * 90 + [b"b"] * 90))
        await stream.reconfigure(config_of(max_msgs_per_subject=80, max_msgs=120))
        # As in nats-server, the limits of the stream come first.
        assert stream.reading.subject_counts(">") == {b"a": 30, b"b": 80}
        workshop.forget()
        workshop.refuse()
        await stream.reconfigure(config_of(max_msgs_per_subject=80, max_msgs=20))
        await publish(stream, (b"c", b"new"))
        workshop.objects.heal()
        await until(lambda: stream.reading.live_between(1, 999) == 20, "the limit holds")
