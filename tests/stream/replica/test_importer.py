"""Copied messages enter with their cursor, exactly once, whatever crashes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from doors import services
from headwater.errors import ApiError
from headwater.model.columns import Columns
from headwater.model.headers import build
from headwater.model.stream import Discard, StreamConfig
from headwater.stream.replica.importer import CursorMovedError
from headwater.stream.stream import Stream

ORIGIN_TS = 1_600_000_000_000_000_000


def copied(seqs: list[int], headers: list[bytes] | None = None) -> Columns:
    subjects = [b"a.%d" % (seq % 3) for seq in seqs]
    datas = [b"message %d" % seq for seq in seqs]
    blocks = headers or [b""] * len(seqs)
    lengths = [np.array([len(each) for each in column], np.uint32) for column in (subjects, blocks, datas)]
    return Columns(
        np.array(seqs, np.int64),
        np.array([ORIGIN_TS + seq for seq in seqs], np.int64),
        lengths[0],
        b"".join(subjects),
        lengths[1],
        b"".join(blocks),
        lengths[2],
        b"".join(datas),
    )


def cursor_at(seq: int) -> bytes:
    return b"origin %d" % seq


class Target:
    """A stream that is opened again and again in one place."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    async def opened(self, config: StreamConfig) -> AsyncIterator[Stream]:
        async with services(self.directory) as shared:
            stream = await Stream.open(self.directory / "T", config, created_ns=1, services=shared)
            yield stream
            await stream.close()


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(tmp_path)


async def test_a_mirror_keeps_sequences_times_and_gaps(target: Target) -> None:
    config = StreamConfig(name="T")
    async for stream in target.opened(config):
        await stream.replica.take("up", b"", copied([3, 4, 7]), cursor_at, 9, mirrored=True)
        state = await stream.reading.state()
        assert (state.first_seq, state.last_seq, state.messages) == (3, 9, 3)
        assert stream.reading.deleted() == [5, 6, 8, 9]
        message = await stream.reading.message(7)
        assert message is not None
        assert (message.ts, message.data) == (ORIGIN_TS + 7, b"message 7")
        assert stream.replica.cursor("up") == b"origin 9"


async def test_a_source_gives_new_sequences_and_times_in_the_origin_s_order(target: Target) -> None:
    config = StreamConfig(name="T", subjects=("t",))
    async for stream in target.opened(config):
        stream.publishing.offer([(b"t", b"", b"", b"local")])
        await stream.replica.take("up", b"", copied([30, 31, 45]), cursor_at, 50, mirrored=False)
        found = [m async for many in stream.reading.scan(1) for m in many]
        assert [(m.seq, m.data) for m in found] == [
            (1, b"local"),
            (2, b"message 30"),
            (3, b"message 31"),
            (4, b"message 45"),
        ]
        assert all(m.ts > ORIGIN_TS + 1000 for m in found)
        assert stream.replica.cursor("up") == b"origin 50"


async def test_a_second_commit_of_the_same_range_is_refused(target: Target) -> None:
    async for stream in target.opened(StreamConfig(name="T")):
        await stream.replica.take("up", b"", copied([1, 2]), cursor_at, 2, mirrored=False)
        with pytest.raises(CursorMovedError):
            await stream.replica.take("up", b"", copied([1, 2]), cursor_at, 2, mirrored=False)
        assert (await stream.reading.state()).messages == 2


async def test_cursors_survive_with_the_messages_they_cover(target: Target) -> None:
    config = StreamConfig(name="T")
    async for stream in target.opened(config):
        await stream.replica.take("one", b"", copied([1, 2]), cursor_at, 5, mirrored=False)
        await stream.replica.take("two", b"", copied([9]), cursor_at, 9, mirrored=False)
    async for stream in target.opened(config):
        assert (stream.replica.cursor("one"), stream.replica.cursor("two")) == (b"origin 5", b"origin 9")
        assert (await stream.reading.state()).messages == 3
        await stream.checkpoint()
    async for stream in target.opened(config):
        assert (stream.replica.cursor("one"), stream.replica.cursor("two")) == (b"origin 5", b"origin 9")
        expected = stream.replica.cursor("one")
        await stream.replica.take("one", expected, copied([6]), cursor_at, 6, mirrored=False)
        assert (await stream.reading.state()).messages == 4


async def test_known_message_ids_are_passed_over_and_the_cursor_moves_on(target: Target) -> None:
    ids = [build([(b"Nats-Msg-Id", each)]) for each in (b"a", b"b", b"a")]
    config = StreamConfig(name="T", duplicate_window=120_000_000_000)
    async for stream in target.opened(config):
        await stream.replica.take("up", b"", copied([1, 2, 3], ids), cursor_at, 3, mirrored=False)
        assert (await stream.reading.state()).messages == 2
        again = copied([4], [build([(b"Nats-Msg-Id", b"b")])])
        await stream.replica.take("up", cursor_at(3), again, cursor_at, 4, mirrored=False)
        assert (await stream.reading.state()).messages == 2
        assert stream.replica.cursor("up") == cursor_at(4)


async def test_a_full_stream_takes_what_it_has_room_for_and_no_more(target: Target) -> None:
    config = StreamConfig(name="T", max_msgs=2, discard=Discard.NEW)
    async for stream in target.opened(config):
        taken = await stream.replica.take("up", b"", copied([5, 6, 7]), cursor_at, 9, mirrored=False)
        assert taken == 2
        assert stream.replica.cursor("up") == cursor_at(6)
        assert await stream.replica.take("up", cursor_at(6), copied([7]), cursor_at, 9, mirrored=False) == 0
        assert stream.replica.cursor("up") == cursor_at(6)


async def test_limits_apply_to_what_is_copied(target: Target) -> None:
    config = StreamConfig(name="T", max_msgs_per_subject=1)
    async for stream in target.opened(config):
        await stream.replica.take("up", b"", copied([1, 2, 3, 4, 5]), cursor_at, 5, mirrored=True)
        found = [m.seq async for many in stream.reading.scan(1) for m in many]
        assert found == [3, 4, 5]


async def test_many_messages_are_cut_into_batches_that_each_know_the_cursor(target: Target) -> None:
    config = StreamConfig(name="T")
    async for stream in target.opened(config):
        await stream.replica.take("up", b"", copied(list(range(1, 20_001))), cursor_at, 20_000, mirrored=True)
        assert stream.replica.cursor("up") == cursor_at(20_000)
        assert (await stream.reading.state()).messages == 20_000


async def test_a_full_mirror_takes_what_it_has_room_for_and_no_more(target: Target) -> None:
    config = StreamConfig(name="T", max_msgs=2, discard=Discard.NEW)
    async for stream in target.opened(config):
        assert await stream.replica.take("up", b"", copied([5, 6, 7]), cursor_at, 9, mirrored=True) == 2
        assert stream.replica.cursor("up") == cursor_at(6)
        assert (await stream.reading.state()).last_seq == 6
        await stream.retention.remove(5)
        assert await stream.replica.take("up", cursor_at(6), copied([7]), cursor_at, 9, mirrored=True) == 1
        assert stream.replica.cursor("up") == cursor_at(9)


@pytest.mark.parametrize("mirrored", [True, False])
async def test_a_full_subject_refuses_what_is_copied(target: Target, mirrored: bool) -> None:
    config = StreamConfig(name="T", max_msgs_per_subject=1, discard=Discard.NEW, discard_new_per_subject=True)
    async for stream in target.opened(config):
        taken = await stream.replica.take("up", b"", copied([1, 2, 3, 4, 5]), cursor_at, 5, mirrored=mirrored)
        assert taken == 3
        assert stream.replica.cursor("up") == cursor_at(3)


def rollups(*kinds: bytes) -> list[bytes]:
    return [build([(b"Nats-Rollup", kind)]) if kind else b"" for kind in kinds]


@pytest.mark.parametrize("mirrored", [True, False])
@pytest.mark.parametrize(
    ("kinds", "left"),
    [
        ((b"", b"", b"", b"sub", b""), [2, 3, 4, 5]),
        ((b"", b"", b"", b"all", b""), [4, 5]),
        ((b"sub", b"all", b"", b"", b"sub"), [3, 4, 5]),
        ((b"", b"", b"", b"", b"ALL"), [5]),
    ],
)
async def test_what_is_copied_rolls_up_where_that_is_allowed(
    target: Target, mirrored: bool, kinds: tuple[bytes, ...], left: list[int]
) -> None:
    config = StreamConfig(name="T", allow_rollup_hdrs=True)
    columns = copied([1, 2, 3, 4, 5], rollups(*kinds))
    expected = [b"message %d" % seq for seq in left]
    async for stream in target.opened(config):
        await stream.replica.take("up", b"", columns, cursor_at, 5, mirrored=mirrored)
        assert [m.data async for many in stream.reading.scan(1) for m in many] == expected
    async for stream in target.opened(config):
        assert [m.data async for many in stream.reading.scan(1) for m in many] == expected
        assert (await stream.reading.state()).messages == len(expected)


async def test_a_copied_rollup_is_a_message_like_any_other_where_that_is_not_allowed(target: Target) -> None:
    columns = copied([1, 2, 3], rollups(b"", b"all", b"sub"))
    async for stream in target.opened(StreamConfig(name="T")):
        await stream.replica.take("up", b"", columns, cursor_at, 3, mirrored=True)
        assert (await stream.reading.state()).messages == 3


async def test_what_is_passed_over_is_noted_with_the_cursor(target: Target) -> None:
    config = StreamConfig(name="T")
    async for stream in target.opened(config):
        await stream.replica.take("up", b"", copied([1, 2]), cursor_at, 2, mirrored=True)
        await stream.replica.pass_over("up", cursor_at(2), cursor_at(8), {"note": b"3 to 8"}, 8)
        with pytest.raises(CursorMovedError):
            await stream.replica.pass_over("up", cursor_at(2), cursor_at(8), {"note": b"again"}, 8)
    async for stream in target.opened(config):
        assert (stream.replica.cursor("up"), stream.replica.cursor("note")) == (cursor_at(8), b"3 to 8")
        assert (await stream.reading.state()).last_seq == 8
        await stream.checkpoint()
    async for stream in target.opened(config):
        assert (stream.replica.cursor("up"), stream.replica.cursor("note")) == (cursor_at(8), b"3 to 8")


@pytest.mark.parametrize("mirrored", [True, False])
async def test_a_sealed_stream_takes_nothing_in(target: Target, mirrored: bool) -> None:
    async for stream in target.opened(StreamConfig(name="T", sealed=True)):
        with pytest.raises(ApiError) as refused:
            await stream.replica.take("up", b"", copied([1]), cursor_at, 1, mirrored=mirrored)
        assert refused.value.err_code == 10109
        assert (await stream.reading.state()).messages == 0


async def test_what_one_message_of_the_origin_became_is_never_divided(target: Target) -> None:
    seqs = [seq for seq in range(1, 3_000) for _ in range(seq % 4)]
    large = copied(seqs, [build([(b"A", b"x" * 200)])] * len(seqs))
    moved: list[bytes] = []
    async for stream in target.opened(StreamConfig(name="T")):

        def cursor_of(seq: int) -> bytes:
            moved.append(cursor_at(seq))
            return cursor_at(seq)

        await stream.replica.take("up", b"", large, cursor_of, 3_000, mirrored=False)
        assert len(set(moved)) > 2
        assert (await stream.reading.state()).messages == len(seqs)
    config = StreamConfig(name="U", max_msgs=4, discard=Discard.NEW)
    async for stream in target.opened(config):
        before = (await stream.reading.state()).messages
        assert await stream.replica.take("v", b"", copied([5, 5, 5, 6, 6]), cursor_at, 9, mirrored=False) in (
            0,
            3,
        )
        assert stream.replica.cursor("v") in (b"", cursor_at(5))
        assert (await stream.reading.state()).messages - before in (0, 3)
