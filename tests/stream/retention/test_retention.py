"""Messages leave a stream by request, by purge and when nothing needs them."""

from __future__ import annotations

from errno import EIO
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import ApiError, DiskError
from headwater.model.stream import Retention
from stream.followers import Followed
from stream.streams import Workshop, publish, seqs_of


async def test_by_interest_only_wanted_messages_are_kept_but_all_are_acknowledged(workshop: Workshop) -> None:
    async with workshop.stream(retention=Retention.INTEREST) as stream:
        Followed(stream, b"wanted")
        await publish(stream, (b"wanted", b"1"), (b"other", b"2"), (b"wanted", b"3"))
        assert [a["seq"] for a in workshop.answers.take().values()] == [1, 2, 3]
        assert await seqs_of(stream) == [1, 3]


async def test_removing_what_is_not_there_changes_nothing(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"1"))
        assert [await stream.retention.remove(seq) for seq in (0, 2, 1, 1)] == [False, False, True, False]
        assert (await stream.reading.state()).first_seq == 2


async def test_a_purge_up_to_a_sequence_beyond_the_end_moves_the_stream_there(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"1"), (b"a", b"2"))
        assert await stream.retention.purge(seq=10) == 2
        state = await stream.reading.state()
        assert (state.messages, state.first_seq, state.last_seq) == (0, 10, 9)
        await publish(stream, (b"a", b"3"))
        assert await seqs_of(stream) == [10]
        assert await stream.retention.purge(filter="b") == 0


async def test_only_what_no_consumer_needs_is_dropped_and_nothing_by_limits(workshop: Workshop) -> None:
    async with workshop.stream(retention=Retention.INTEREST) as stream:
        followed = Followed(stream, b"a")
        followed.needed = {1, 4}
        await publish(stream, *[(b"a", b"")] * 4)
        await stream.retention.drop_unneeded(2, 2)
        assert await seqs_of(stream) == [1, 3, 4]
        await stream.retention.drop_unneeded()
        assert await seqs_of(stream) == [1, 4]
    async with workshop.stream() as stream:
        Followed(stream)
        await stream.retention.drop_unneeded()
        assert await seqs_of(stream) == [1, 4]


async def test_messages_that_cannot_be_read_now_are_named_and_not_removed(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with workshop.stream() as stream:
        await publish(stream, *[(b"a", b"")] * 3)
        view: Any = stream._store.view

        def unreadable(seq: int) -> None:
            raise DiskError(Path("table"), "read", EIO)

        with monkeypatch.context() as patch:
            patch.setattr(view, "run_now", unreadable)
            removal, unread = stream.retention.removal_of([1, 3, 9])
        assert (list(removal.seqs), unread) == ([], [1, 3])


async def test_nothing_is_removed_while_nothing_can_be_stored(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b""))
        stream._committer.failure = DiskError(Path("log"), "write", EIO)
        for change in (stream.retention.remove(1), stream.retention.purge()):
            with pytest.raises(ApiError):
                await change
        assert await stream.retention.expire(1 << 62) == 0
        stream._committer.failure = None
        assert await seqs_of(stream) == [1]
