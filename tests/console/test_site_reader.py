"""One read of a site: streams, consumers by turns, and errors that keep what was known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nats
import pytest

from headwater.client.connection_settings import ConnectionSettings
from headwater.console import site_reader
from headwater.console.monitoring_client import MonitoringClient
from headwater.console.site_connection import SiteConnection
from headwater.console.site_reader import SiteReader
from headwater.console.watched_site import WatchedSite
from pipelines.test_pipelines import WANTED, staged
from servers import nats_server


async def test_consumers_have_turns_and_a_lost_site_keeps_its_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(site_reader, "CONSUMER_LISTS_PER_READ", 1)
    async with nats_server(jetstream=True) as server:
        client = await nats.connect(server.client_url)
        jetstream = client.jetstream()
        for name in ("A", "B"):
            await jetstream.add_stream(name=name, subjects=[name])
            await jetstream.add_consumer(name, durable_name=f"of_{name}")
        await jetstream.add_stream(name="C", subjects=["C"])
        await client.close()
        connection = SiteConnection(WatchedSite("a", ConnectionSettings(server=server.client_url, timeout=1)))
        reader = SiteReader(connection)
        first, second = await reader.read(), await reader.read()
        assert list(first.consumers) == ["A"]
        assert sorted(second.consumers) == ["A", "B"]
        assert (sorted(second.streams), second.error, second.is_engine) == (["A", "B", "C"], "", False)
        assert "nats-server 2." in second.server
        await server.stop()
        lost = await reader.read()
        assert (lost.error != "", lost.streams, lost.at_s) == (True, second.streams, second.at_s)
        await connection.close()


async def test_monitoring_pages_that_do_not_answer_are_said_beside_the_streams() -> None:
    async with nats_server(jetstream=True) as server:
        site = WatchedSite("a", ConnectionSettings(server=server.client_url), "http://127.0.0.1:1")
        connection = SiteConnection(site)
        found = await SiteReader(connection).read()
        assert (found.error, found.metrics) == ("", None)
        assert "cannot read http://127.0.0.1:1/metrics" in found.metrics_error
        await connection.close()


async def test_pages_that_take_long_are_read_less_often_than_the_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []

    def pages(monitoring: MonitoringClient) -> dict[str, Any]:
        read.append(monitoring.url)
        return {"warnings": [{"text": "careful"}]}

    monkeypatch.setattr(site_reader, "_pages", pages)
    async with nats_server(jetstream=True) as server:
        site = WatchedSite("a", ConnectionSettings(server=server.client_url), "http://127.0.0.1:1")
        connection = SiteConnection(site)
        reader = SiteReader(connection)
        monkeypatch.setattr(site_reader, "PAGES_SHARE", 1e-12)
        first, second = await reader.read(), await reader.read()
        assert first.warnings == second.warnings == [{"text": "careful"}]
        assert len(read) == 1
        reader._pages_due_s = 0.0
        await reader.read()
        assert len(read) == 2
        await connection.close()


async def test_the_account_is_read_less_often_than_the_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_reader, "ACCOUNT_S", 3600.0)
    async with nats_server(jetstream=True) as server:
        connection = SiteConnection(WatchedSite("a", ConnectionSettings(server=server.client_url)))
        reader = SiteReader(connection)
        first = await reader.read()
        client = await nats.connect(server.client_url)
        await client.jetstream().add_stream(name="A", subjects=["a"])
        second = await reader.read()
        assert (second.account, list(second.streams)) == (first.account, ["A"])
        monkeypatch.setattr(reader, "_account_due_s", 0.0)
        assert (await reader.read()).account["streams"] == 1
        await client.close()


async def test_the_pipelines_of_an_engine_are_read(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.ask("CREATE.P", WANTED)
        site = WatchedSite("a", ConnectionSettings(server=stage.door.client_url, timeout=10))
        connection = SiteConnection(site)
        found = await SiteReader(connection).read()
        assert [each["config"]["name"] for each in found.pipelines] == ["P"]
        await connection.close()
