"""Deliveries reach subscribers, under the stored subject, through a real leaf."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from doors import Replies, connected
from headwater.bus.connection import Connection
from headwater.bus.leaf import LeafConnection
from headwater.bus.options import ConnectOptions
from headwater.delivery.outlet import Outlet
from servers import nats_server
from waits import until


@dataclass
class Way:
    """An outlet, and a client at the other end."""

    outlet: Outlet
    leaf: LeafConnection
    client: Connection

    async def listen(self, subject: str, queue: str = "") -> Replies:
        """Return what arrives on a subject, once the outlet sees its interest."""
        replies = Replies()
        self.client.subscribe(subject.encode(), replies, queue.encode())
        await until(lambda: self.outlet.listens(subject.encode(), queue.encode()))
        return replies


@pytest.fixture
async def way() -> AsyncIterator[Way]:
    async with nats_server(leaf=True) as server:
        leaf = LeafConnection(ConnectOptions(servers=(server.leaf_url,), name="outlet"))
        await leaf.connect()
        client = await connected(server.client_url)
        yield Way(Outlet(leaf), leaf, client)
        await client.close()
        await leaf.close()


REPLY = b"$JS.ACK.S.C.1.2.3.4.5"


async def test_a_message_arrives_under_its_stored_subject_with_its_ack_subject(way: Way) -> None:
    box = await way.listen("box")
    size = way.outlet.deliver(b"box", [REPLY], [b"stored.here"], [b"NATS/1.0\r\nA: b\r\n\r\n"], [b"data"])
    assert await box.next() == (b"stored.here", REPLY, b"NATS/1.0\r\nA: b\r\n\r\n", b"data")
    assert size > len(REPLY)


async def test_many_messages_keep_their_order(way: Way) -> None:
    box = await way.listen("box")
    replies = [b"$JS.ACK.S.C.1.%d.%d.4.5" % (n, n) for n in range(1, 101)]
    way.outlet.deliver(b"box", replies, [b"s"] * 100, [b""] * 100, [b"%d" % n for n in range(100)])
    assert [(await box.next())[3] for _ in range(100)] == [b"%d" % n for n in range(100)]


async def test_one_member_of_a_queue_group_gets_each_message(way: Way) -> None:
    first, second = await way.listen("box", "g"), await way.listen("box", "g")
    way.outlet.deliver(b"box", [REPLY] * 50, [b"s"] * 50, [b""] * 50, [b"x"] * 50)
    await until(lambda: first.queue.qsize() + second.queue.qsize() >= 50)
    await way.leaf.flush()
    assert first.queue.qsize() + second.queue.qsize() == 50


async def test_a_status_has_headers_only(way: Way) -> None:
    box = await way.listen("box")
    way.outlet.status(b"box", b"NATS/1.0 100 Idle Heartbeat\r\n\r\n", b"answer.here")
    assert await box.next() == (b"box", b"answer.here", b"NATS/1.0 100 Idle Heartbeat\r\n\r\n", b"")


async def test_interest_is_known_by_subject_and_group(way: Way) -> None:
    await way.listen("box.*")
    await way.listen("shared", "g")
    assert way.outlet.listens(b"box.one")
    assert not way.outlet.listens(b"box.one.two")
    assert not way.outlet.listens(b"shared", b"other")
    assert not way.outlet.listens(b"box.one", b"g")


async def test_nothing_is_delivered_without_a_leaf() -> None:
    outlet = Outlet(None)
    assert not outlet.is_open
    assert not outlet.listens(b"box")
    assert outlet.deliver(b"box", [REPLY], [b"s"], [b""], [b"x"]) == 0
    outlet.status(b"box", b"")
    await outlet.turn()


async def test_it_is_closed_while_the_leaf_is_away(way: Way) -> None:
    assert way.outlet.is_open
    await way.leaf.close()
    assert not way.outlet.is_open
    assert not way.outlet.listens(b"box")
    way.outlet.deliver(b"box", [REPLY], [b"s"], [b""], [b"x"])


async def test_a_subscription_to_exactly_a_subject_is_awaited(way: Way) -> None:
    await way.listen("one.*")
    waiting = asyncio.create_task(way.outlet.subscribed(b"one.box"))
    await way.listen("another")
    assert not waiting.done()
    await way.listen("one.box")
    await waiting
    await Outlet(None).subscribed(b"nothing is to be seen without a leaf")


async def test_changes_of_interest_are_reported_for_the_length_of_a_block(way: Way) -> None:
    first: list[int] = []
    second: list[int] = []
    with way.outlet.observed(lambda: first.append(1)):
        with way.outlet.observed(lambda: second.append(1)):
            await way.listen("one")
            await until(lambda: len(second) > 0)
        assert first
        first.clear()
        seen = len(second)
        await way.listen("two")
        await until(lambda: len(first) > 0)
        assert len(second) == seen
    with Outlet(None).observed(lambda: first.append(2)):
        assert 2 not in first
