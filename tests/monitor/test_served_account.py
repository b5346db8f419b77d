"""Tests of monitor.served_account, on streams of a real engine's API."""

from __future__ import annotations

from pathlib import Path

from doors import Door, opened_door
from headwater.clock import SystemClock
from headwater.monitor.served_account import Scrape, ServedAccount


def served(door: Door) -> ServedAccount:
    return ServedAccount("$G", "hub", "probe", door.domain, door.consumers, door.upstreams, SystemClock())


async def test_totals_count_every_stream_and_rows_only_as_many_as_allowed(tmp_path: Path) -> None:
    async with opened_door(tmp_path) as door:
        for name in ("A", "B", "C"):
            await door.asker.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [name]})
        memory = {"name": "M", "subjects": ["M"], "storage": "memory"}
        await door.asker.ask("STREAM.CREATE.M", memory)
        for number in range(3):
            config = {"durable_name": f"c{number}", "ack_policy": "explicit"}
            body = {"stream_name": "A", "config": config}
            await door.asker.ask(f"CONSUMER.DURABLE.CREATE.A.c{number}", body)
        scrape = Scrape(2)
        totals = await served(door).read(scrape)
        assert (totals.streams, totals.consumers, totals.offline, totals.failing) == (4, 3, 0, 0)
        assert totals.labels == '{server_name="probe",domain="hub",account="$G"}'
        assert [labels.count('stream_name="A"') for labels, _ in scrape.streams] == [1, 0]
        assert (len(scrape.streams), len(scrape.consumers)) == (2, 2)
        assert scrape.omitted == 2 + 1  # two streams and one consumer
        assert totals.memory_bytes == totals.file_bytes == 0


async def test_an_upstream_whose_origin_is_missing_shows_no_lag(tmp_path: Path) -> None:
    async with opened_door(tmp_path) as door:
        config = {
            "name": "T",
            "sources": [{"name": "NONE", "filter_subject": "a.>", "external": {"api": "$JS.x.API"}}],
        }
        await door.asker.ask("STREAM.CREATE.T", config)
        scrape = Scrape(10)
        totals = await served(door).read(scrape)
        assert totals.upstreams == 1
        ((labels, row),) = scrape.upstreams
        assert labels.endswith('kind="source",origin="NONE",origin_api="$JS.x.API",filter="a.>"}')
        assert row.exporter_labels.endswith('source_name="NONE",source_api="$JS.x.API",filter="a.>"}')
        assert not row.progress.is_known
        assert row.seen_ns == -1
