"""Micro-batches of a real stream: their size, replays, and what happens if messages are gone."""

from __future__ import annotations

import asyncio
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from headwater.errors import BusError, SettingsError
from headwater.model.times import format_time
from headwater.spark.following_reader import FollowingReader
from headwater.spark.offset import DataLossError
from headwater.spark.reading import Reading
from replication.origins import KINDS, Site, site_of

Offset = dict[str, Any]


def follower(site: Site, **options: str) -> FollowingReader:
    """Return a reader as a query has it, sent to a worker."""
    reader = FollowingReader(Reading({"server": site.url, "stream": "ORDERS", **options}), ["seq", "subject"])
    copied: FollowingReader = pickle.loads(pickle.dumps(reader))
    return copied


def seqs(reader: FollowingReader, start: Offset, end: Offset) -> list[int]:
    """Return what the tasks of a micro-batch read."""
    batches = [batch for each in reader.partitions(start, end) for batch in reader.read(each)]
    assert all(batch.schema.names == ["seq", "subject"] for batch in batches)
    return [seq for batch in batches for seq in batch["seq"].to_pylist()]


def batches_of(reader: FollowingReader, start: Offset) -> list[list[int]]:
    """Return micro-batches until there is nothing left, each read twice."""
    found = []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        found.append(seqs(reader, start, end))
        assert seqs(reader, start, json.loads(json.dumps(end))) == found[-1]
        start = end
    return found


async def filled(site: Site, count: int, **config: Any) -> None:
    """Make the stream with messages of 1000 bytes."""
    await site.make(allow_direct=True, **config)
    for number in range(count):
        await site.publish(f"orders.{number % 2}", bytes(1000))


@pytest.mark.parametrize("kind", KINDS)
async def test_micro_batches_are_bounded_by_messages_and_by_bytes(kind: str, tmp_path: Path) -> None:
    async with site_of(kind, tmp_path) as site:
        await filled(site, 7)

        def sizes(**options: str) -> list[int]:
            reader = follower(site, **options)
            return [len(batch) for batch in batches_of(reader, reader.initialOffset())]

        assert await asyncio.to_thread(sizes) == [7]
        assert await asyncio.to_thread(sizes, maxMessagesPerTrigger="3") == [3, 3, 1]
        by_bytes = await asyncio.to_thread(sizes, maxBytesPerTrigger="2500")
        assert sum(by_bytes) == 7
        assert max(by_bytes) == 2
        assert await asyncio.to_thread(sizes, maxMessagesPerTrigger="1", maxBytesPerTrigger="2500") == [1] * 7
        assert await asyncio.to_thread(sizes, maxBytesPerTrigger="1") == [1] * 7
        assert await asyncio.to_thread(sizes, subject="orders.1", maxMessagesPerTrigger="4") == [2, 1]
        stored = await site.remember()
        assert await asyncio.to_thread(sizes, startTime=format_time(stored[4].ts)) == [3]

        reader = follower(site, maxBytesPerTrigger="2500")
        assert reader.getDefaultReadLimit() == ReadMaxBytes(2500)
        assert follower(site).getDefaultReadLimit() == ReadMaxRows(100_000)
        begin = await asyncio.to_thread(reader.initialOffset)
        assert (await asyncio.to_thread(reader.latestOffset, begin, ReadAllAvailable()))["seq"] == 7
        assert (await asyncio.to_thread(reader.reportLatestOffset))["seq"] == 7


async def test_available_now_ends_where_the_stream_ended(tmp_path: Path) -> None:
    async with site_of("nats-server", tmp_path) as site:
        await filled(site, 3)
        reader = follower(site)
        begin = await asyncio.to_thread(reader.initialOffset)
        await asyncio.to_thread(reader.prepareForTriggerAvailableNow)
        await site.publish("orders.9")
        assert await asyncio.to_thread(batches_of, reader, begin) == [[1, 2, 3]]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_re_created_stream_is_an_error_or_is_read_from_its_beginning(
    kind: str, tmp_path: Path
) -> None:
    async with site_of(kind, tmp_path) as site:
        await filled(site, 5)
        reader, lenient = follower(site), follower(site, failOnDataLoss="false")
        begin = await asyncio.to_thread(reader.initialOffset)
        read = await asyncio.to_thread(reader.latestOffset, begin, ReadMaxRows(4))
        planned = await asyncio.to_thread(reader.partitions, begin, read)
        await site.ask("STREAM.DELETE.ORDERS")
        await filled(site, 6)
        with pytest.raises(DataLossError, match="'ORDERS' was deleted and re-created after message 4"):
            await asyncio.to_thread(reader.latestOffset, read, ReadMaxRows(4))
        with pytest.raises(DataLossError, match="re-created while it was read"):
            await asyncio.to_thread(reader.partitions, begin, read)
        with pytest.raises(BusError, match="re-created since its range was planned"):
            await asyncio.to_thread(lambda: [list(reader.read(each)) for each in planned])
        assert await asyncio.to_thread(batches_of, lenient, read) == [[1, 2, 3, 4, 5, 6]]
        assert await asyncio.to_thread(batches_of, lenient, {"seq": 90}) == [[1, 2, 3, 4, 5, 6]]
        assert await asyncio.to_thread(seqs, lenient, begin, read) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_trimmed_stream_is_an_error_or_what_is_gone_is_left_out(kind: str, tmp_path: Path) -> None:
    async with site_of(kind, tmp_path) as site:
        await filled(site, 9)
        reader, lenient = follower(site), follower(site, failOnDataLoss="false")
        begin = await asyncio.to_thread(reader.initialOffset)
        read = await asyncio.to_thread(reader.latestOffset, begin, ReadMaxRows(2))
        end = await asyncio.to_thread(reader.latestOffset, read, ReadMaxRows(4))
        planned = await asyncio.to_thread(reader.partitions, read, end)
        await site.ask("STREAM.PURGE.ORDERS", b'{"seq":5}')
        with pytest.raises(DataLossError, match="'ORDERS' no longer has messages 3 to 4"):
            await asyncio.to_thread(reader.latestOffset, read, ReadMaxRows(4))
        with pytest.raises(DataLossError, match="no longer has messages 3 to 4"):
            await asyncio.to_thread(reader.partitions, read, end)
        with pytest.raises(DataLossError, match="was trimmed to message 5 while messages 3 to 6 were read"):
            await asyncio.to_thread(lambda: [list(reader.read(each)) for each in planned])
        assert await asyncio.to_thread(batches_of, lenient, read) == [[5, 6, 7, 8, 9]]
        # What a new query starts with is all that there is.
        begin = await asyncio.to_thread(reader.initialOffset)
        assert await asyncio.to_thread(batches_of, reader, begin) == [[5, 6, 7, 8, 9]]


def test_an_end_is_refused_for_a_query_that_follows() -> None:
    for option in ({"endSequence": "5"}, {"endTime": "2026-11-16T08:00:00Z"}):
        with pytest.raises(SettingsError, match="endSequence and endTime are for"):
            FollowingReader(Reading({"stream": "S", **option}), ["seq"])
