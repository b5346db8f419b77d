"""Waiting messages are counted correctly while messages are stored, removed and delivered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from delivery.deliveries import Desk
from headwater.delivery.backlog import Backlog
from headwater.delivery.feed import Feed
from headwater.stream.retention.removal import Removal
from waits import until


class Place:
    """The position of a consumer, set by the test."""

    def __init__(self, desk: Desk, filters: tuple[str, ...] = (), only: Sequence[int] = ()) -> None:
        self.next_seq = 1
        self.tally = desk.consumers.tallies.join(filters)
        self.feed = Feed(desk.stream, self.tally)
        self.backlog = Backlog(desk.stream, self.tally, lambda: self.next_seq, only)

    async def count(self) -> int:
        """Return how many wait, once that is known."""
        await self.backlog.count()
        return len(self.backlog)

    def chosen(self) -> list[int]:
        """Return the next sequences."""
        found = self.feed.resident(self.next_seq)
        assert found is not None
        return [int(found.run.seqs[row]) for row in self.backlog.chosen(found)]


async def test_without_filters_nothing_needs_counting(desk: Desk) -> None:
    place = Place(desk)
    assert place.backlog.is_known
    await desk.publish(b"a", b"b", b"c")
    assert len(place.backlog) == 3
    place.next_seq = 3
    assert len(place.backlog) == 1


async def test_with_filters_it_is_counted_once_and_kept_up_to_date(desk: Desk) -> None:
    await desk.publish(b"a", b"b", b"a")
    place = Place(desk, ("a",))
    assert not place.backlog.is_known
    assert await place.count() == 2
    await desk.publish(b"a", b"b")
    assert len(place.backlog) == 3
    place.next_seq = 2
    place.backlog.delivered(1)
    assert len(place.backlog) == 2


async def test_messages_on_their_way_to_the_disk_are_counted_once(desk: Desk) -> None:
    await desk.publish(b"a")
    place = Place(desk, ("a",))
    desk.stream.publishing.offer([(b"a", b"", b"", b"")] * 3)
    counting = asyncio.create_task(place.count())
    await desk.stream.publishing.settled()
    await counting
    assert len(place.backlog) == 4
    place.next_seq = 2
    place.backlog.lose_count()
    desk.stream.publishing.offer([(b"a", b"", b"", b"")] * 2)
    counting = asyncio.create_task(place.count())
    await desk.stream.publishing.settled()
    await counting
    assert len(place.backlog) == 5


async def test_a_removal_of_what_waits_is_subtracted(desk: Desk) -> None:
    await desk.publish(b"a", b"b", b"a", b"a")
    place = Place(desk, ("a",))
    await place.count()
    place.next_seq = 2
    place.backlog.delivered(1)
    removal = Removal()
    removal.take_known(2, b"b", 1)
    removal.take_known(3, b"a", 1)
    place.backlog.removed(2, 3, removal)
    assert place.backlog.is_known
    assert len(place.backlog) == 1


async def test_a_removal_across_the_place_is_counted_again(desk: Desk) -> None:
    await desk.publish(b"a", b"a", b"a")
    place = Place(desk, ("a",))
    await place.count()
    place.next_seq = 2
    place.backlog.delivered(1)
    await desk.stream.retention.remove(1)
    await desk.stream.retention.remove(2)
    removal = Removal()
    removal.take_known(1, b"a", 1)
    removal.take_known(2, b"a", 1)
    place.backlog.removed(1, 2, removal)
    assert not place.backlog.is_known
    assert await place.count() == 1


async def test_a_removal_of_what_was_delivered_changes_nothing(desk: Desk) -> None:
    await desk.publish(b"a", b"a")
    place = Place(desk, ("a",))
    await place.count()
    place.next_seq = 2
    place.backlog.delivered(1)
    removal = Removal()
    removal.take_known(1, b"a", 1)
    place.backlog.removed(1, 1, removal)
    assert len(place.backlog) == 1


class Gate:
    """Holds back the answers of a stream about what is pending."""

    def __init__(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held: list[asyncio.Event] = []
        pending = desk.stream.reading.pending

        async def gated(*args: Any) -> int:
            found = await pending(*args)
            self.held.append(event := asyncio.Event())
            await event.wait()
            return found

        monkeypatch.setattr(desk.stream.reading, "pending", gated)

    async def open(self, number: int) -> None:
        """Let one answer through."""
        await self.reached(number)
        self.held[number].set()

    async def reached(self, number: int) -> None:
        """Return once there is such an answer."""
        await until(lambda: len(self.held) > number)


async def test_what_is_removed_while_it_is_counted_is_not_counted(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.publish(b"a", b"a", b"a")
    place, gate = Place(desk, ("a",)), Gate(desk, monkeypatch)
    counting = asyncio.create_task(place.count())
    await until(lambda: len(gate.held) == 1)
    await desk.stream.retention.remove(2)
    removal = Removal()
    removal.take_known(2, b"a", 1)
    place.backlog.removed(2, 2, removal)
    await gate.open(0)
    await gate.open(1)
    assert await counting == 2


async def test_counting_ends_though_messages_come_and_go(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.publish(b"a")
    place, gate = Place(desk, ("a",)), Gate(desk, monkeypatch)
    counting = asyncio.create_task(place.count())
    for number in range(8):
        await gate.reached(number)
        place.backlog.lose_count()
        await gate.open(number)
    assert await counting == 1


async def test_a_later_count_does_not_undo_deliveries_made_meanwhile(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.publish(*[b"a"] * 5)
    place, gate = Place(desk, ("a",)), Gate(desk, monkeypatch)
    slow, fast = asyncio.create_task(place.count()), asyncio.create_task(place.count())
    await until(lambda: len(gate.held) == 2)
    await gate.open(1)
    assert await fast == 5
    place.next_seq = 3
    place.backlog.delivered(2)
    await gate.open(0)
    assert await slow == 3


async def test_of_what_was_there_only_chosen_sequences_are_wanted(desk: Desk) -> None:
    await desk.publish(b"a", b"b", b"a", b"c", b"b")
    place = Place(desk, (">",), only=[3, 4, 5])
    assert await place.count() == 3
    assert place.chosen() == [3, 4, 5]
    await desk.publish(b"a")
    assert len(place.backlog) == 4
    place.next_seq = 5
    place.backlog.delivered(2)
    assert place.chosen() == [5]
    place.next_seq = 6
    assert place.chosen() == [6]
    place.backlog.lose_count()
    assert await place.count() == 1


async def test_other_filters_are_counted_again(desk: Desk) -> None:
    await desk.publish(b"a", b"b", b"b")
    place = Place(desk, ("a",))
    assert await place.count() == 1
    place.backlog.follow(desk.consumers.tallies.join(("b",)))
    assert await place.count() == 2
    place.backlog.follow(desk.consumers.tallies.join(()))
    assert len(place.backlog) == 3


async def test_a_consumer_that_starts_over_wants_everything(desk: Desk) -> None:
    await desk.publish(b"a", b"a", b"b")
    place = Place(desk, (">",), only=[2, 3])
    place.backlog.restart()
    assert await place.count() == 3
    assert place.chosen() == [1, 2, 3]
