"""Plans begin where the copy ends and take an origin's files before its head."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doors import services
from headwater.model.row_pipeline import RowPipeline
from headwater.model.stream import StreamConfig
from headwater.model.upstream import StreamSource
from headwater.replication.work import NatsOrigin, Plan, encode
from headwater.stream.stream import Stream
from headwater.table.datafile import DataFile
from headwater.table.parquet import MAX_GROUP_ROWS
from headwater.upstreams.planner import (
    ASKED_LEAST,
    ASKED_LEAST_BYTES,
    PIECE_BYTES,
    SLOT_PIECES,
    CursorAt,
    OriginRange,
    pieces,
    plan_local,
    plan_remote,
)
from headwater.upstreams.upstream import Upstream
from headwater.wire import column_bytes

NOW_NS = 1_790_000_000_000_000_000


@pytest.fixture
async def streams(tmp_path: Path) -> AsyncIterator[tuple[Stream, Stream]]:
    async with services(tmp_path) as shared:
        origin = await Stream.open(tmp_path / "O", StreamConfig(name="O"), created_ns=1, services=shared)
        target = await Stream.open(tmp_path / "T", StreamConfig(name="T"), created_ns=2, services=shared)
        yield origin, target
        await origin.close()
        await target.close()


def mirror_of(target: Stream) -> Upstream:
    return Upstream(target, StreamSource(name="O"), mirrored=True)


async def offered(stream: Stream, count: int) -> None:
    stream.publishing.offer([(b"o", b"", b"", b"%d" % number) for number in range(count)])
    await stream.publishing.settled()


async def test_files_are_copied_before_the_head(streams: tuple[Stream, Stream]) -> None:
    origin, target = streams
    await offered(origin, 10)
    await origin.checkpoint()
    await offered(origin, 5)
    await origin.retention.remove(3)
    extent = OriginRange(origin.identity, 1, 15)
    (first,) = await plan_local(mirror_of(target), origin, extent, 1)
    assert (first.start_seq, first.stop_seq, len(first.files), first.tail) == (1, 10, 1, b"")
    assert first.removed
    (second,) = await plan_local(mirror_of(target), origin, extent, 11)
    assert (second.start_seq, second.stop_seq, second.files) == (11, 15, ())
    assert column_bytes.decode(second.tail).seqs.tolist() == [11, 12, 13, 14, 15]


async def test_a_long_head_is_copied_in_pieces_that_leave_nothing_out(streams: tuple[Stream, Stream]) -> None:
    origin, target = streams
    for _ in range(40):
        origin.publishing.offer([(b"o", b"", b"", bytes(10_000)) for _ in range(2)])
    await origin.publishing.settled()
    seen: list[int] = []
    start, count = 1, 0
    while start <= 80:
        (work,) = await plan_local(mirror_of(target), origin, OriginRange(origin.identity, 1, 80), start)
        seen += column_bytes.decode(work.tail).seqs.tolist()
        start = work.stop_seq + 1
        count += 1
    assert seen == list(range(1, 81))
    assert count > 2


async def test_a_remote_origin_is_read_through_its_api(streams: tuple[Stream, Stream]) -> None:
    _, target = streams
    origin = NatsOrigin(servers=("nats://127.0.0.1:1",), api_prefix="$JS.B.API", stream="O")
    (work,) = plan_remote(mirror_of(target), origin, OriginRange("id", 1, 50), 20, NOW_NS)
    assert work.origin is not None
    assert (work.start_seq, work.stop_seq, work.origin.stream) == (20, 50, "O")
    (whole,) = plan_remote(mirror_of(target), origin, OriginRange("id", 1, 1_000_000), 20, NOW_NS)
    assert (whole.start_seq, whole.stop_seq) == (20, 1_000_000)


async def test_a_remote_origin_is_asked_for_as_much_as_came_in_a_few_seconds(
    streams: tuple[Stream, Stream],
) -> None:
    origin = NatsOrigin(servers=("nats://127.0.0.1:1",), api_prefix="$JS.B.API", stream="O")
    extent, upstream = OriginRange("id", 1, 10_000_000), mirror_of(streams[1])
    (first,) = plan_remote(upstream, origin, extent, 1, NOW_NS)
    assert first.origin is not None
    assert (first.origin.max_messages, first.origin.max_bytes) == (ASKED_LEAST, ASKED_LEAST_BYTES)
    upstream.pace.saw(1, 10_000_000, NOW_NS)
    upstream.pace.handed_out(NOW_NS)
    upstream.pace.committed(1_000, 300_000, 1_000, NOW_NS + 10_000_000_000)
    (slow,) = plan_remote(upstream, origin, extent, 1_001, NOW_NS + 10_000_000_000)
    assert slow.origin is not None
    assert (slow.origin.max_messages, slow.origin.max_bytes) == (ASKED_LEAST, ASKED_LEAST_BYTES)
    upstream.pace.committed(4_000_000, 1 << 30, 4_001_000, NOW_NS + 20_000_000_000)
    (fast,) = plan_remote(upstream, origin, extent, 4_001_001, NOW_NS + 20_000_000_000)
    assert fast.origin is not None
    assert 1_000_000 < fast.origin.max_messages <= origin.max_messages
    assert 1 << 28 < fast.origin.max_bytes <= origin.max_bytes


@given(
    st.lists(st.tuples(st.integers(1, 200_000), st.integers(0, 1 << 30)), min_size=1, max_size=5),
    st.integers(0, 100),
    st.integers(0, 100),
    st.integers(1, 40),
    st.integers(0, 1 << 31),
)
def test_pieces_cover_a_range_without_gap_or_overlap(
    lengths: list[tuple[int, int]], skipped: int, left: int, slots: int, task_bytes: int
) -> None:
    files, seq = [], 1
    for rows, size in lengths:
        files.append(DataFile(f"{seq}", 0, rows, seq, seq + rows - 1, size, 0, 0))
        seq += rows + 7
    start = min(1 + skipped, files[0].last_seq)
    stop = max(files[-1].last_seq - left, files[-1].first_seq, start)
    found = pieces(start, stop, files, slots, task_bytes)
    assert 1 <= len(found) <= slots * SLOT_PIECES
    assert (found[0][0], found[-1][1]) == (start, stop)
    assert all(first <= last for first, last in found)
    assert all(two[0] == one[1] + 1 for one, two in pairwise(found))


async def test_pieces_of_files_follow_on_each_other(
    streams: tuple[Stream, Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    origin, target = streams
    await offered(origin, 100)
    await origin.checkpoint()
    await origin.retention.remove(7)
    monkeypatch.setattr("headwater.upstreams.planner.PIECE_BYTES", 100)
    monkeypatch.setattr("headwater.upstreams.planner.MAX_GROUP_ROWS", 10)
    works = await plan_local(mirror_of(target), origin, OriginRange(origin.identity, 1, 100), 1)
    assert len(works) > 1
    assert works[0].expected == b""
    for one, two in pairwise(works):
        assert two.start_seq == one.stop_seq + 1
        assert two.expected == CursorAt(origin.identity)(one.stop_seq)
    assert works[-1].stop_seq == 100


async def test_as_much_is_read_of_files_as_was_copied_within_seconds(streams: tuple[Stream, Stream]) -> None:
    origin, target = streams
    for _ in range(5):
        await offered(origin, 100)
        await origin.checkpoint()
    extent, upstream = (
        OriginRange(origin.identity, 1, 500),
        Upstream(target, StreamSource(name="O"), mirrored=False),
    )

    async def planned(start_seq: int, now_ns: int) -> int:
        return (await plan_local(upstream, origin, extent, start_seq, now_ns=now_ns))[-1].stop_seq

    assert await planned(1, NOW_NS) == 500, "nothing was measured yet"
    upstream.pace.saw(1, 500, NOW_NS)
    upstream.pace.handed_out(NOW_NS)
    later = NOW_NS + 10_000_000_000
    upstream.pace.committed(100, 100, 100, later)
    assert await planned(101, later) == 200, "ten a second: one file at the least"
    upstream.pace.committed(1_000, 1_000, 1_100, later)
    assert await planned(101, later) == 500


async def test_whole_files_of_a_mirror_are_one_piece_of_work(streams: tuple[Stream, Stream]) -> None:
    origin, target = streams
    for _ in range(3):
        await offered(origin, 10)
        await origin.checkpoint()
    extent = OriginRange(origin.identity, 1, 30)
    (work,) = await plan_local(mirror_of(target), origin, extent, 1)
    assert (work.stop_seq, len(work.files), work.linkable) == (30, 3, True)
    (cut,) = await plan_local(mirror_of(target), origin, extent, 5)
    assert (cut.start_seq, cut.stop_seq, len(cut.files)) == (5, 10, 1)
    await origin.retention.remove(15)
    (before,) = await plan_local(mirror_of(target), origin, extent, 1)
    (removed,) = await plan_local(mirror_of(target), origin, extent, 11)
    assert (before.stop_seq, removed.stop_seq) == (10, 20)
    source = Upstream(target, StreamSource(name="O"), mirrored=False)
    works = await plan_local(source, origin, extent, 1)
    assert works[-1].stop_seq == 30


async def test_a_long_head_becomes_a_file_before_it_is_copied(streams: tuple[Stream, Stream]) -> None:
    origin, target = streams
    grown = asyncio.Event()
    origin.publishing.offer([(b"o", b"", b"", bytes(50_000)) for _ in range(100)])
    await origin.publishing.settled()
    origin.events.message_callbacks.add(grown.set)
    extent = OriginRange(origin.identity, 1, 100)
    assert await plan_local(mirror_of(target), origin, extent, 1) == []
    await asyncio.wait_for(grown.wait(), 60)
    (work,) = await plan_local(mirror_of(target), origin, extent, 1)
    assert (work.stop_seq, work.tail, len(work.files)) == (100, b"", 1)


def thousand_files(size: int) -> list[DataFile]:
    """Return files of full row groups that follow on each other."""
    rows = 10 * MAX_GROUP_ROWS
    return [
        DataFile(f"{number}", 0, rows, number * rows + 1, (number + 1) * rows, size, 0, 0)
        for number in range(1000)
    ]


@pytest.mark.parametrize("slots", [1, 2, 8, 64])
def test_pieces_follow_the_slots_and_are_of_about_one_size(slots: int) -> None:
    files = thousand_files(64 << 20)
    found = pieces(1, files[-1].last_seq, files, slots)
    assert slots * SLOT_PIECES * 3 / 4 < len(found) <= slots * SLOT_PIECES
    lengths = sorted(last - first + 1 for first, last in found[:-1])
    assert lengths[-1] - lengths[0] <= MAX_GROUP_ROWS
    assert all((first - 1) % MAX_GROUP_ROWS == 0 for first, _ in found)


@pytest.mark.parametrize("slots", [1, 2, 8])
def test_each_slot_begins_with_as_much_as_a_task_may_read(slots: int) -> None:
    files = thousand_files(PIECE_BYTES)[: slots * SLOT_PIECES]
    rows = files[0].rows
    even = [last - first + 1 for first, last in pieces(1, files[-1].last_seq, files, slots, 8 * PIECE_BYTES)]
    assert len(even) == slots
    assert max(even) - min(even) <= slots * MAX_GROUP_ROWS
    assert len(pieces(1, files[-1].last_seq, files, slots, 6 * PIECE_BYTES)) == slots
    fast = [last - first + 1 for first, last in pieces(1, files[-1].last_seq, files, slots, 5 * PIECE_BYTES)]
    # The rest in pieces as small as they may be.
    assert all(5 * rows <= length <= 5 * rows + MAX_GROUP_ROWS for length in fast[:slots])
    assert len(fast) > slots
    assert all(length <= rows + MAX_GROUP_ROWS for length in fast[slots:])
    slower = pieces(1, files[-1].last_seq, files, slots, 3 * PIECE_BYTES)
    lengths = [last - first + 1 for first, last in slower]
    assert all(3 * rows <= length <= 3 * rows + MAX_GROUP_ROWS for length in lengths[:slots])
    slow = pieces(1, files[-1].last_seq, files, slots, PIECE_BYTES // 2)
    assert slow == pieces(1, files[-1].last_seq, files, slots)


def test_little_is_not_shared_out() -> None:
    files = thousand_files(2 * PIECE_BYTES)[:1]
    assert len(pieces(1, files[-1].last_seq, files, 100)) == 2
    assert pieces(1, 100, [DataFile("x", 0, 100, 1, 100, PIECE_BYTES - 1, 0, 0)], 100) == [(1, 100)]


async def several_files(origin: Stream, count: int) -> None:
    for _ in range(count):
        await offered(origin, 10)
        await origin.checkpoint()


async def test_a_plan_reads_as_much_as_its_replicator_has_slots_for(
    streams: tuple[Stream, Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    origin, target = streams
    await several_files(origin, 12)
    source = Upstream(target, StreamSource(name="O"), mirrored=False)
    extent = OriginRange(origin.identity, 1, 120)
    size = min(file.size_bytes for file in origin.replica.files_from(1, 1 << 40))
    monkeypatch.setattr("headwater.upstreams.planner.SLOT_BYTES", 2 * size)
    monkeypatch.setattr("headwater.upstreams.planner.PIECE_BYTES", 1)
    stops = []
    for slots in (1, 2, 3):
        works = await plan_local(source, origin, extent, 1, slots)
        assert len(works) <= slots * SLOT_PIECES
        read = origin.replica.files_from(1, slots * 2 * size)
        assert sum(work.read_bytes for work in works) == pytest.approx(
            sum(f.size_bytes for f in read), abs=50
        )
        stops.append(works[-1].stop_seq)
    assert stops == [20, 40, 60]


async def test_a_file_is_read_only_as_far_as_a_piece_goes(
    streams: tuple[Stream, Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    origin, target = streams
    await offered(origin, 100)
    await origin.checkpoint()
    monkeypatch.setattr("headwater.upstreams.planner.PIECE_BYTES", 100)
    monkeypatch.setattr("headwater.upstreams.planner.MAX_GROUP_ROWS", 10)
    source = Upstream(target, StreamSource(name="O"), mirrored=False)
    works = await plan_local(source, origin, OriginRange(origin.identity, 1, 100), 51)
    (file,) = origin.replica.files_from(1, 1)
    assert sum(work.read_bytes for work in works) == pytest.approx(file.size_bytes / 2, abs=20)


async def test_a_plan_for_sql_has_one_piece_of_the_least_size_per_slot(
    streams: tuple[Stream, Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    origin, target = streams
    await several_files(origin, 12)
    monkeypatch.setattr("headwater.upstreams.planner.PIECE_BYTES", 1)
    monkeypatch.setattr("headwater.upstreams.planner.MAX_GROUP_ROWS", 5)
    source = Upstream(target, StreamSource(name="O"), mirrored=False, pipeline=RowPipeline(where="true"))
    extent = OriginRange(origin.identity, 1, 120)
    works = await plan_local(source, origin, extent, 1, 2, task_bytes=1 << 30)
    assert len(works) == 2
    assert works[-1].stop_seq < 120
    (after, _) = await plan_local(source, origin, extent, works[-1].stop_seq + 1, 2, task_bytes=1 << 30)
    assert after.start_seq == works[-1].stop_seq + 1


async def test_files_that_are_linked_are_not_read(streams: tuple[Stream, Stream]) -> None:
    origin, target = streams
    await several_files(origin, 3)
    (work,) = await plan_local(mirror_of(target), origin, OriginRange(origin.identity, 1, 30), 1)
    assert (len(work.files), work.read_bytes) == (3, 0)


async def test_however_many_slots_there_are_a_plan_fits_a_message(
    streams: tuple[Stream, Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    origin, target = streams
    await several_files(origin, 12)
    for seq in range(1, 121, 2):
        await origin.retention.remove(seq)
    monkeypatch.setattr("headwater.upstreams.planner.PIECE_BYTES", 1)
    monkeypatch.setattr("headwater.upstreams.planner.MAX_GROUP_ROWS", 5)
    source = Upstream(target, StreamSource(name="O"), mirrored=False)
    extent = OriginRange(origin.identity, 1, 120)
    every = await plan_local(source, origin, extent, 1, 1000)
    assert every[-1].stop_seq == 120
    limit = sum(work.exchange_bytes for work in every) // 3
    monkeypatch.setattr("headwater.replication.work.EXCHANGE_BYTES", limit)
    start, seen = 1, 0
    while start <= 120:
        works = await plan_local(source, origin, extent, start, 1000)
        assert works[0].start_seq == start
        assert sum(work.exchange_bytes for work in works) <= limit
        assert len(encode(Plan(works=tuple(works)))) <= limit
        start, seen = works[-1].stop_seq + 1, seen + 1
    assert seen >= 3
    monkeypatch.setattr("headwater.replication.work.EXCHANGE_BYTES", 1)
    assert len(await plan_local(source, origin, extent, 1, 1000)) == 1
