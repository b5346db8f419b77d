"""What holds for every way to read an origin: direct gets, a hidden push consumer, a pull consumer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from headwater.bus.options import ConnectOptions
from headwater.model.message import Message
from headwater.replication import durable
from headwater.replication.work import NatsOrigin
from headwater.replication.worker.client import BlockingClient
from headwater.replication.worker.direct_reader import DirectReader
from headwater.replication.worker.pull_reader import PullReader
from headwater.replication.worker.push_reader import PushReader
from replication.origins import KINDS, Origin, Site, lasting_origin
from replication.works import messages_in

Read = Callable[[BlockingClient, NatsOrigin, tuple[str, ...], int, int], list[Message]]
DURABLE = "OURS"


def direct(
    client: BlockingClient, origin: NatsOrigin, filters: tuple[str, ...], start_seq: int, stop_seq: int
) -> list[Message]:
    """Read with direct gets."""
    reader = DirectReader(client, origin, filters)
    parts = list(reader.read(start_seq, stop_seq))
    reader.close()
    return [message for part in parts for message in messages_in(part.columns())]


def push(
    client: BlockingClient, origin: NatsOrigin, filters: tuple[str, ...], start_seq: int, stop_seq: int
) -> list[Message]:
    """Read with a hidden push consumer."""
    reader = PushReader(client, origin, filters)
    parts = list(reader.read(start_seq, stop_seq))
    reader.close()
    return [message for part in parts for message in messages_in(part.columns())]


def pull(
    client: BlockingClient, origin: NatsOrigin, filters: tuple[str, ...], start_seq: int, stop_seq: int
) -> list[Message]:
    """Read with a durable pull consumer, which exists before."""
    asked = durable.create_request(origin.stream, DURABLE, filters, start_seq)
    answer = client.request(f"$JS.API.CONSUMER.DURABLE.CREATE.{origin.stream}.{DURABLE}", asked)
    while (error := answer.get("error")) is not None:
        simpler = durable.simpler_request(asked, error["err_code"])
        assert simpler is not None, error
        asked = simpler
        answer = client.request(f"$JS.API.CONSUMER.DURABLE.CREATE.{origin.stream}.{DURABLE}", asked)
    reader = PullReader(client, origin, filters, start_seq)
    return [message for messages in reader.read() for message in messages]


@pytest.fixture(params=[direct, push, pull])
def read(request: pytest.FixtureRequest) -> Read:
    found: Read = request.param
    return found


@pytest.fixture(scope="module", params=KINDS)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origin]:
    with lasting_origin(request.param, tmp_path_factory.mktemp("engine")) as running:
        yield running


@pytest.fixture
async def site(shared: Origin, tmp_path: Path) -> AsyncIterator[Site]:
    async with shared.site(tmp_path) as running:
        await running.make(allow_direct=True)
        yield running


async def reading(site: Site, read: Read, start_seq: int, stop_seq: int, *filters: str) -> list[Message]:
    """Return what a reader finds, on a thread as in a task."""
    origin = site.origin(durable=DURABLE)

    def work() -> list[Message]:
        with BlockingClient(ConnectOptions(servers=origin.servers, name="contract")) as client:
            return read(client, origin, filters, start_seq, stop_seq)

    return await asyncio.to_thread(work)


async def test_every_message_comes_once_in_order_and_complete(site: Site, read: Read) -> None:
    for number in range(300):
        headers = {"n": str(number)} if number % 3 == 0 else None
        await site.publish(f"orders.{number % 2}", b"x" * number, headers)
    found = await reading(site, read, 1, 300)
    assert found == await site.remember()


async def test_a_filter_selects_and_removed_messages_are_left_out(site: Site, read: Read) -> None:
    for number in range(1, 21):
        await site.publish(f"orders.{'a' if number % 2 else 'b'}", b"%d" % number)
    for seq in (1, 7, 8):
        await site.ask("STREAM.MSG.DELETE.ORDERS", json.dumps({"seq": seq}).encode())
    found = await reading(site, read, 1, 20, "orders.a")
    assert [message.seq for message in found] == [3, 5, 9, 11, 13, 15, 17, 19]


async def test_reading_begins_where_it_is_asked_to(site: Site, read: Read) -> None:
    for number in range(1, 11):
        await site.publish("orders.a", b"%d" % number)
    found = await reading(site, read, 8, 10)
    assert [(message.seq, message.data) for message in found] == [(8, b"8"), (9, b"9"), (10, b"10")]


async def test_nothing_is_found_where_nothing_matches(site: Site, read: Read) -> None:
    await site.publish("orders.a")
    assert await reading(site, read, 1, 1, "orders.b") == []
