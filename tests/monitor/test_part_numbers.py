"""Deliveries, acks, NATS Streaming, the replicator, bucket and journal, as a running engine shows them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.request import urlopen

import nats
from nats.aio.msg import Msg

from engines import engine
from headwater.bus.free_port import free_port
from headwater.monitor.exposition import Exposition
from headwater.monitor.part_numbers import BUCKET, JOURNAL, REPLICATOR, STAN
from monitor.families import Samples, parsed


def test_what_an_engine_does_not_use_has_no_numbers() -> None:
    exposition = Exposition()
    BUCKET.write_one(exposition, None)
    JOURNAL.write_one(exposition, None)
    REPLICATOR.write_one(exposition, None)
    STAN.write(exposition, [])
    assert exposition.text() == b"# EOF\n"


def scraped(port: int) -> Samples:
    """Return the metrics of an engine."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        return parsed(answer.read())


async def test_deliveries_acks_and_the_parts_of_an_engine_are_counted(tmp_path: Path) -> None:
    tables = ("--tables", f"file://{tmp_path / 'tables'}", "--journal", f"file://{tmp_path / 'journal'}")
    options = ("--http-port", str(http := free_port()), "--stan", "orders", *tables)
    async with engine(tmp_path, *options) as running:
        client = await nats.connect(running.client_url)
        js = client.jetstream(timeout=60)
        await js.add_stream(name="S", subjects=["s"])
        for _ in range(4):
            await js.publish("s", b"x")
        pulling = await js.pull_subscribe("s", durable="c")
        acked, refused, ended, left = await _fetched(pulling, 4)
        await acked.ack_sync(timeout=60)
        await ended.term()
        await refused.nak()
        (again,) = await _fetched(pulling, 1)
        await again.ack_sync(timeout=60)
        found = await asyncio.to_thread(scraped, http)
        assert left.metadata.num_delivered == 1
        await client.close()
    values = {name: samples[0][1] for name, samples in found.items() if len(samples) == 1}
    assert (values["headwater_deliveries_total"], values["headwater_redeliveries_total"]) == (4, 1)
    acks = {labels["kind"]: value for labels, value in found["headwater_acks_total"]}
    assert acks == {"ack": 2, "nak": 1, "term": 1}
    assert (values["headwater_stan_clients"], values["headwater_stan_channels"]) == (0, 0)
    assert values["headwater_replicator_running"] == 0, "nothing is to be copied"
    assert values["headwater_replicator_plans_total"] == 0
    assert values["headwater_bucket_requests_total"] > 0
    assert values["headwater_bucket_reachable"] == 1
    assert values["headwater_journal_bytes"] > 0
    assert values["headwater_journal_failing"] == 0


async def _fetched(pulling: nats.js.JetStreamContext.PullSubscription, count: int) -> list[Msg]:
    found: list[Msg] = []
    while len(found) < count:
        found += await pulling.fetch(count - len(found), timeout=60)
    return found
