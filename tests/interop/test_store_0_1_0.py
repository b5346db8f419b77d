"""A store that version 0.1.0 wrote: everything in it is there, and it continues from there."""

from __future__ import annotations

import json
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest

from control.copiers import Copier, be_impatient, copying, count_is, publish
from doors import Door, Wanted, services
from engines import engine
from fixtures.make_store_0_1_0 import (
    OTHER,
    STAN,
    described_account,
    described_flows,
    described_stream,
    stan_client,
    streaming_on,
)
from headwater.control.account import AccountLimits
from headwater.control.catalog import Catalog
from headwater.control.domain import Domain
from waits import until

FIXTURES = Path(__file__).parent.parent / "fixtures"
HELD = json.loads((FIXTURES / "store-0.1.0.json").read_text())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a copy of the store that 0.1.0 wrote."""
    path = tmp_path / "store"
    with tarfile.open(FIXTURES / "store-0.1.0.tar.gz") as archive:
        archive.extractall(path, filter="data")
    return path


@asynccontextmanager
async def opened(store: Path) -> AsyncIterator[tuple[Door, Copier]]:
    """Run an engine on the store."""
    async with copying(store, Wanted(leaf=True)) as (door, copier):
        assert not door.domain.offline
        yield door, copier


async def test_streams_consumers_and_cursors_are_as_0_1_0_left_them(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_impatient(monkeypatch)
    async with opened(store) as (door, copier):
        assert await described_account(door) == HELD["$G"]
        for subject in ("limits.new", "queue.new", "interest.b", "$KV.settings.color", "orders.new", "empty"):
            await publish(door, subject, 3)
        await copier.until(count_is(door, "MIRROR", len(HELD["$G"]["MIRROR"]["messages"]) + 8))
        await copier.until(count_is(door, "SOURCES", len(HELD["$G"]["SOURCES"]["messages"]) + 11))
        before = await described_account(door)
        await door.domain.stream("SOURCES").checkpoint()
    for name, held in HELD["$G"].items():
        kept = [message for message in held["messages"] if message[0] >= before[name]["first_seq"]]
        assert before[name]["messages"][: len(kept)] == kept or name == "KV_settings"
        assert before[name]["last_seq"] >= held["last_seq"]
    assert before["EMPTY"]["last_seq"] == 1002
    async with opened(store) as (door, _):
        assert await described_account(door) == before


async def test_a_second_account_is_as_0_1_0_left_it(store: Path) -> None:
    for grown in (0, 5):
        async with services(store) as shared:
            catalog = Catalog(store / "catalog.db")
            domain = Domain(
                account=OTHER,
                store=store,
                catalog=catalog,
                services=shared,
                limits=AccountLimits(),
                folder=OTHER,
            )
            await domain.open_all()
            stream = domain.stream("LIMITS")
            held = await described_stream(stream)
            assert held["messages"][:25] == HELD[OTHER]["LIMITS"]["messages"]
            assert held["last_seq"] == 25 + grown
            stream.publishing.offer([(b"limits.new", b"", b"", b"%d" % n) for n in range(5)])
            await domain.close()
            catalog.close()


async def test_durable_subscriptions_continue_where_0_1_0_left_them(store: Path) -> None:
    assert described_flows(store / STAN) == HELD["stan"]
    last_sent, pending = HELD["stan"]["flows"]["weather d "]
    async with opened(store) as (door, _), streaming_on(door):
        writer = await stan_client(door, "new-writer")
        assert not (await writer.publish("weather", b"new")).error
        reader = await stan_client(door, "reader")
        heard = await reader.subscribe("weather", durableName="d", maxInFlight=100, ackWaitInSecs=3600)
        await heard.got(len(pending) + 42 - last_sent)
        assert sorted(heard.seqs) == [*pending, *range(last_sent + 1, 43)]
        group = await reader.subscribe("weather", qGroup="g", durableName="q", ackWaitInSecs=3600)
        await group.got(1)
        assert group.seqs == [42]
        await reader.close()
    assert described_flows(store / STAN)["flows"]["weather d "] == [42, []]


async def test_a_whole_engine_serves_the_store_and_serves_it_again_after_a_kill(
    store: Path, tmp_path: Path
) -> None:
    counts = {name: len(held["messages"]) for name, held in HELD["$G"].items()}

    async def message_counts(js: Any) -> dict[str, int]:
        return {info.config.name: info.state.messages for info in await js.streams_info()}

    async with engine(tmp_path, "--stan", "test-cluster", "--replicator", "submitted") as running:
        client = await nats.connect(running.client_url)
        assert await message_counts(client.jetstream()) == counts
        ack = await client.jetstream().publish("orders.new", b"new")
        assert ack.seq == HELD["$G"]["ORDERS"]["last_seq"] + 1
        await running.kill()
        await running.start()
        await until(lambda: client.is_connected)
        assert await message_counts(client.jetstream()) == counts | {"ORDERS": counts["ORDERS"] + 1}
        await client.close()
        assert "offline" not in running.log
