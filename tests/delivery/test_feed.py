"""The messages that match a consumer are found a run at a time, never past what is durable."""

from __future__ import annotations

from delivery.deliveries import Desk
from headwater.delivery.feed import WINDOW, Feed
from headwater.delivery.tallies import SubjectTally
from stream.streams import Workshop, publish


def found_seqs(feed: Feed, start_seq: int) -> tuple[list[int], int]:
    """Return the sequences that lie in memory from here on, and where to look next."""
    found = feed.resident(start_seq)
    assert found is not None
    return found.run.seqs[found.rows].tolist(), found.next_seq


async def test_rows_from_a_sequence_on_are_found_in_memory(desk: Desk) -> None:
    await desk.publish(b"a", b"b", b"a")
    feed = Feed(desk.stream, SubjectTally(()))
    assert found_seqs(feed, 1) == ([1, 2, 3], 4)
    assert found_seqs(feed, 2) == ([2, 3], 4)
    assert feed.resident(4) is None
    assert await feed.read(4) is None


async def test_only_wanted_subjects_and_living_messages_are_found(desk: Desk) -> None:
    await desk.publish(b"a", b"b", b"a", b"a")
    await desk.stream.retention.remove(3)
    assert found_seqs(Feed(desk.stream, SubjectTally(("a",))), 1) == ([1, 4], 5)
    assert found_seqs(Feed(desk.stream, SubjectTally(("z",))), 1) == ([], 5)


async def test_what_is_not_durable_is_not_found(desk: Desk) -> None:
    await desk.publish(b"a")
    desk.stream.publishing.offer([(b"a", b"", b"", b"on its way")])
    feed = Feed(desk.stream, SubjectTally(()))
    assert found_seqs(feed, 1) == ([1], 2)
    assert feed.resident(2) is None
    await desk.stream.publishing.settled()
    assert found_seqs(feed, 2) == ([2], 3)


async def test_what_was_folded_is_read_from_the_table(desk: Desk) -> None:
    await desk.publish(*[b"a"] * 50)
    await desk.stream.checkpoint()
    feed = Feed(desk.stream, SubjectTally(("a",)))
    found = await feed.read(11)
    assert found is not None
    assert found.run.seqs[found.rows].tolist() == list(range(11, 51))
    assert (await feed.message(7)) is not None


async def test_a_long_run_is_read_in_windows(desk: Desk) -> None:
    await desk.publish(*[b"a"] * (WINDOW + 10))
    await desk.stream.checkpoint()
    found = await Feed(desk.stream, SubjectTally(())).read(1)
    assert found is not None
    assert len(found.rows) == WINDOW
    assert found.next_seq == WINDOW + 1


async def test_one_message_is_found_as_long_as_it_lives(desk: Desk) -> None:
    await desk.publish(b"a", b"b")
    feed = Feed(desk.stream, SubjectTally(()))
    message = feed.resident_message(2)
    assert message is not None
    assert message.subject == b"b"
    await desk.stream.retention.remove(2)
    assert feed.resident_message(2) is None
    assert await feed.message(2) is None
    assert await feed.message(99) is None


async def test_large_messages_are_not_joined(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        for data in (b"x" * 300_000, b"y" * 300_000, b"z", b"z"):
            await publish(stream, (b"a", data))
        feed = Feed(stream, SubjectTally(()))
        found = [feed.resident(seq, 10) for seq in (1, 2, 3)]
        assert [len(each.rows) for each in found if each is not None] == [1, 1, 2]
