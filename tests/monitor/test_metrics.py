"""Tests of monitor.metrics."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from doors import opened_door
from headwater.clock import SystemClock
from headwater.journal.head_journal import JournalPeer
from headwater.meters import Meters
from headwater.model.row_pipeline import RowPipeline
from headwater.monitor.exposition import Exposition
from headwater.monitor.metrics import Metrics
from headwater.monitor.open_parts import OpenParts
from headwater.monitor.part_numbers import BucketNumbers, JournalNumbers, ReplicatorNumbers, StanNumbers
from headwater.monitor.pipeline_numbers import pipeline_row, write_pipelines
from headwater.monitor.served_account import ServedAccount
from headwater.monitor.serving_state import ServingState
from headwater.pipelines.pipeline_status import status_of
from headwater.stream.view import RunCache
from headwater.wire.pipeline import ReadOffset
from monitor.families import parsed
from monitor.test_pipeline_numbers import ENDS, PIPELINE, REPORT


async def test_an_engine_that_starts_has_metrics_too(tmp_path: Path) -> None:
    found = parsed(await Metrics(ServingState(), Meters(), tmp_path, 10).text())
    phases = {labels["phase"]: value for labels, value in found["headwater_engine_phase"]}
    assert phases == {"starting": 1.0, "standby": 0.0, "serving": 0.0}
    assert ({"check": "engine"}, 0.0) in found["headwater_ready"]
    assert "jetstream_stream_total_messages" not in found


async def test_streams_totals_cache_and_journal_are_one_valid_text(tmp_path: Path) -> None:
    status = ServingState()
    metrics = Metrics(status, Meters(), tmp_path, 10)
    async with opened_door(tmp_path) as door:
        await door.asker.ask("STREAM.CREATE.A", {"name": "A", "subjects": ["a"]})
        await door.asker.publish("a", b"x")
        status.serves(
            ServedAccount("$G", "", "probe", door.domain, door.consumers, door.upstreams, SystemClock())
        )
        cache = RunCache(1000)
        cache.get(("nothing",))
        status.opened(OpenParts(cache, peers=lambda: [JournalPeer("n2", True, False, 5, 3)]))
        found = parsed(await metrics.text())
    (labels, messages), *others = found["jetstream_stream_total_messages"]
    assert not others
    assert messages == 1
    assert labels["stream_name"] == "A"
    assert found["jetstream_server_total_messages"][0][1] == 1
    assert ({"found": "no"}, 1.0) in found["headwater_read_cache_lookups_total"]
    assert found["headwater_journal_peer_lag"] == [({"server": "n2"}, 3.0)]
    assert found["headwater_metrics_omitted"][0][1] == 0
    assert all(value == 1 for _, value in found["headwater_ready"])


async def test_the_reference_page_names_every_metric_and_no_other(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text()
    documented = set(re.findall(r"`((?:headwater|jetstream|process)_[a-z_]+)`", page))
    status = ServingState()
    metrics = Metrics(status, Meters(), tmp_path, 10)
    status.opened(
        OpenParts(
            RunCache(1000),
            peers=lambda: [JournalPeer("n2", True, False, 5, 3)],
            bucket=lambda: BucketNumbers(7, 1, 100, True),
            journal=lambda: JournalNumbers(10, 20, False),
            replicator=lambda: ReplicatorNumbers(True, 2, False),
        )
    )
    async with opened_door(tmp_path) as door:
        await door.asker.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        await door.asker.ask("STREAM.CREATE.T", {"name": "T", "sources": [{"name": "S"}]})
        await door.asker.ask("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "S"}})
        for upstream in door.upstreams:
            upstream.origin_answered(SystemClock().now_ns())
            upstream.pipeline = RowPipeline(where="true")
        body = {"stream_name": "S", "config": {"durable_name": "c", "ack_policy": "explicit"}}
        await door.asker.ask("CONSUMER.DURABLE.CREATE.S.c", body)
        account = ServedAccount("$G", "", "probe", door.domain, door.consumers, door.upstreams, SystemClock())
        status.serves(replace(account, stan=lambda: StanNumbers(1, 2, 3, 4, 5, 6, 7)))
        found = parsed(await metrics.text())
    pipeline = status_of(PIPELINE, REPORT, (ReadOffset(4, "t"),), ENDS, has_target=True, runner_problem="")
    exposition = Exposition()
    write_pipelines(exposition, [pipeline_row(pipeline, "")])
    found |= parsed(exposition.text())
    histograms = {name.removesuffix("_bucket") for name in found if name.endswith("_bucket")}
    parts = {name + part for name in histograms for part in ("_bucket", "_count", "_sum")}
    assert documented == (set(found) - parts) | histograms
