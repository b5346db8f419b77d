"""Requests of a replicator to its engine, and what a missing answer means."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from unittest.mock import patch

import nats
import pytest
from nats.aio.msg import Msg

from doors import connected
from headwater.bus.connection import Connection
from headwater.cli.session import flushed
from headwater.replication import exchange
from headwater.replication.exchange import EngineUnreachableError, Exchange, portions
from headwater.replication.proof import ProofCheck, Proven
from headwater.replication.work import (
    EXCHANGE_BYTES,
    Committed,
    Plan,
    Receipt,
    decode_plan_request,
    encode,
    plan_subject,
)
from replication.fake_engine import SECRET, STORE_ID, FakeEngine, serving
from replication.works import work_of
from servers import nats_server


def receipt(name: str, size: int = 0) -> Receipt:
    """Return a receipt with so many bytes of messages."""
    return Receipt(work=name, target="T", upstream="U", expected=b"", data=b"x" * size)


def exchange_of(connection: Connection, secret: bytes = SECRET) -> Exchange:
    """Return an exchange with a secret."""
    return Exchange(connection, STORE_ID, secret=lambda: secret)


def sizes(receipts: Sequence[Receipt]) -> int:
    """Return how large the message is that holds the receipts."""
    return len(encode(list(receipts)))


def test_receipts_are_handed_in_in_order_and_no_message_grows_too_large() -> None:
    receipts = [receipt(str(n), size) for n, size in enumerate([10, 200_000, 250_000, 250_000, 250_000, 9])]
    found = list(portions(receipts))
    assert [each for portion in found for each in portion] == receipts
    assert len(found) == 2
    assert all(sizes(portion) < EXCHANGE_BYTES + 1024 for portion in found)


def test_no_receipts_make_no_message() -> None:
    assert list(portions([])) == []


def test_a_receipt_that_is_too_large_alone_still_goes() -> None:
    assert [len(portion) for portion in portions([receipt("a", 50), receipt("b", 50)], limit=10)] == [1, 1]


async def test_plans_and_commits_travel_over_nats() -> None:
    engine = FakeEngine()
    engine.offer(work_of(stop_seq=3), work_of(id="w2", stop_seq=4))
    async with nats_server() as server, serving(server.client_url, engine):
        connection = await connected(server.client_url)
        line = exchange_of(connection)
        assert await line.plan() == Plan(works=(work_of(stop_seq=3), work_of(id="w2", stop_seq=4)))
        assert await line.commit([receipt("w1"), receipt("w2")]) == Committed(taken=(0, 0), refused=("", ""))
        assert await line.plan() == Plan()
        await connection.close()
    assert (await engine.receipt()).work == "w1"


async def test_an_engine_that_is_not_there_is_away() -> None:
    async with nats_server() as server:
        connection = await connected(server.client_url)
        with pytest.raises(EngineUnreachableError, match="no engine answers"):
            await exchange_of(connection).plan()
        await connection.close()
        with pytest.raises(EngineUnreachableError, match="not connected"):
            await exchange_of(connection).plan()


async def test_an_engine_that_says_nothing_or_nonsense_is_away() -> None:
    async with nats_server() as server:
        client = await nats.connect(server.client_url)
        connection = await connected(server.client_url)
        heard = await client.subscribe(plan_subject(STORE_ID))
        await flushed(client)
        with (
            patch.object(exchange, "PLAN_WAIT_S", 0.05),
            pytest.raises(EngineUnreachableError, match="no answer"),
        ):
            await exchange_of(connection).plan()
        await heard.unsubscribe()
        await flushed(client)

        async def talk_nonsense(message: Msg) -> None:
            await message.respond(b"nonsense")

        await client.subscribe(plan_subject(STORE_ID), cb=talk_nonsense)
        await flushed(client)
        with pytest.raises(EngineUnreachableError, match="lacks a valid proof"):
            await exchange_of(connection).plan()
        await connection.close()
        await client.close()


async def test_a_lost_connection_ends_the_request_that_waits_for_an_answer() -> None:
    async with nats_server() as server:
        client = await nats.connect(server.client_url)
        connection = await connected(server.client_url)
        heard = await client.subscribe(plan_subject(STORE_ID))
        await flushed(client)
        line = exchange_of(connection)
        asking = asyncio.create_task(line.plan())
        await heard.next_msg(timeout=10)
        line.interrupt()
        with pytest.raises(EngineUnreachableError, match="broke"):
            await asking
        asking = asyncio.create_task(line.plan())
        await heard.next_msg(timeout=10)
        line.interrupt("no permission to publish")
        with pytest.raises(EngineUnreachableError, match="no permission to publish"):
            await asking
        line.interrupt()
        await connection.close()
        await client.close()


async def test_a_replicator_asks_under_one_name() -> None:
    async with nats_server() as server:
        client = await nats.connect(server.client_url)
        connection = await connected(server.client_url)
        heard = await client.subscribe(plan_subject(STORE_ID))
        await flushed(client)
        names = []
        for line in (one := exchange_of(connection), one, exchange_of(connection)):
            asking = asyncio.create_task(line.plan())
            asked = await heard.next_msg(timeout=10)
            proofs = ProofCheck(SECRET)
            await asked.respond(proofs.refusal)  # so that the run is known
            asked = await heard.next_msg(timeout=10)
            proven = proofs.request(asked.subject.encode(), asked.reply.encode(), asked.data)
            assert proven is not None
            names.append(decode_plan_request(proven.body).name)
            await asked.respond(proofs.answer(proven, encode(Plan())))
            assert await asking == Plan()
        await connection.close()
        await client.close()
    assert names[0] == names[1] != names[2]


async def test_an_engine_with_another_secret_is_away_and_says_why() -> None:
    engine = FakeEngine()
    async with nats_server() as server, serving(server.client_url, engine):
        connection = await connected(server.client_url)
        with pytest.raises(EngineUnreachableError, match="secret"):
            await exchange_of(connection, b"another").plan()
        assert engine.plans_asked == 0
        await connection.close()


async def test_a_plan_of_a_stranger_is_not_taken() -> None:
    async with nats_server() as server:
        client = await nats.connect(server.client_url)
        connection = await connected(server.client_url)

        async def forge(message: Msg) -> None:
            proofs = ProofCheck(b"a stranger's")
            body = encode(Plan(works=(work_of(stop_seq=3, staging="/anywhere"),)))
            await message.respond(proofs.answer(Proven(b"", message.data[1:33]), body))

        await client.subscribe(plan_subject(STORE_ID), cb=forge)
        await flushed(client)
        with pytest.raises(EngineUnreachableError, match="lacks a valid proof"):
            await exchange_of(connection).plan()
        await connection.close()
        await client.close()
