"""Tests of stan.monitoring."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from engines import engine
from headwater.clock import SystemClock
from headwater.stan.monitoring import Monitoring, uptime
from headwater.wire.stan_messages import FIRST
from stan_door import CLUSTER, Streaming, streaming


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Streaming]:
    async with streaming(tmp_path) as running:
        yield running


async def page(server: Streaming, name: str, **query: str) -> tuple[int, Any]:
    pages = Monitoring(server.stan, SystemClock()).pages
    status, content_type, body = await pages[f"/streaming/{name}"](query)
    return status, json.loads(body) if content_type == "application/json" else body.decode()


async def test_the_server_shows_what_it_holds(server: Streaming) -> None:
    client = await server.client()
    heard = await client.subscribe("foo")
    await client.subscribe("bar", durableName="dur")
    await client.publish_all("foo", [b"1234"] * 5)
    await heard.got(5)
    status, shown = await page(server, "serverz")
    assert status == 200
    assert (shown["cluster_id"], shown["state"], shown["clients"]) == (CLUSTER, "STANDALONE", 1)
    assert (shown["channels"], shown["subscriptions"], shown["total_msgs"]) == (2, 2, 5)
    assert (shown["in_msgs"], shown["in_bytes"], shown["out_msgs"]) == (5, 20, 5)
    assert shown["total_bytes"] > 20
    assert "role" not in shown


async def test_the_store_shows_its_limits(tmp_path: Path) -> None:
    file = tmp_path / "channels.toml"
    file.write_text('["foo.>"]\nmax_msgs = 5\n["foo.*"]\nmax_age_s = 2\n')
    async with streaming(tmp_path, stan_channels=file) as server:
        _, shown = await page(server, "storez")
        each = {"max_bytes": 1_024_000_000, "max_subscriptions": 1000, "max_inactivity": 0}
        assert shown["type"] == "FILE"
        assert shown["limits"] == {
            "max_channels": 100,
            "max_msgs": 1_000_000,
            "max_age": 0,
            **each,
            "channels": {
                "foo.>": {"max_msgs": 5, "max_age": 0, **each},
                "foo.*": {"max_msgs": 5, "max_age": 2_000_000_000, **each},
            },
        }


async def test_clients_are_listed_in_order_and_in_pages(server: Streaming) -> None:
    for name in ("c", "a", "b"):
        await server.client(name)
    _, shown = await page(server, "clientsz", offset="1", limit="1")
    assert [client["id"] for client in shown["clients"]] == ["b"]
    counts = {key: shown[key] for key in ("offset", "limit", "count", "total")}
    assert counts == {"offset": 1, "limit": 1, "count": 1, "total": 3}
    assert (await page(server, "clientsz"))[1]["limit"] == 1024
    assert (await page(server, "clientsz", limit="many"))[0] == 400


async def test_one_client_is_shown_with_its_subscriptions(server: Streaming) -> None:
    client = await server.client()
    heard = await client.subscribe("foo", acks=False, maxInFlight=2, qGroup="g", durableName="d")
    await client.publish_all("foo", [b"x"] * 5)
    await heard.got(2)
    _, shown = await page(server, "clientsz", client="me", subs="1")
    assert (shown["id"], shown["hb_inbox"], shown["subs_count"]) == ("me", client.heartbeat_inbox, 1)
    assert shown["subscriptions"] == {
        "foo": [
            {
                "client_id": "me",
                "inbox": heard.inbox,
                "ack_inbox": heard.ack_inbox,
                "queue_name": "d:g",
                "is_durable": True,
                "is_offline": False,
                "max_inflight": 2,
                "ack_wait": 30,
                "last_sent": 2,
                "pending_count": 2,
                "is_stalled": True,
            }
        ]
    }
    assert (await page(server, "clientsz", client="who"))[0] == 404


async def test_channels_are_listed_by_name_or_with_what_they_hold(server: Streaming) -> None:
    client = await server.client()
    await client.publish_all("b", [b"x"] * 3)
    heard = await client.subscribe("a", durableName="dur", startPosition=FIRST)
    await client.close_subscription(heard)
    _, shown = await page(server, "channelsz")
    assert (shown["names"], shown["count"], shown["total"]) == (["a", "b"], 2, 2)
    _, shown = await page(server, "channelsz", subs="1", limit="1")
    (channel,) = shown["channels"]
    (offline,) = channel["subscriptions"]
    assert (channel["name"], channel["subs_count"], offline["is_offline"]) == ("a", 1, True)
    assert (offline["durable_name"], offline["client_id"]) == ("dur", "me")
    _, shown = await page(server, "channelsz", channel="b")
    assert (shown["msgs"], shown["first_seq"], shown["last_seq"], shown["subs_count"]) == (3, 1, 3, 0)
    assert (await page(server, "channelsz", channel="c"))[0] == 404


async def test_a_page_can_be_had_as_a_call(server: Streaming) -> None:
    _, shown = await page(server, "serverz", callback="f")
    assert shown.startswith("f({")
    assert shown.endswith(")")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (61, "1m1s"), (3600, "1h0m0s"), (90061, "1d1h1m1s")]
)
def test_a_long_time_is_shown_from_its_largest_unit(seconds: int, text: str) -> None:
    assert uptime(seconds) == text


async def test_an_engine_serves_the_pages(tmp_path: Path) -> None:
    async with engine(tmp_path, "--stan", CLUSTER, "--http-port", "0") as running:
        where = next(line.split()[-1] for line in running.log.splitlines() if "monitoring on" in line)

        def read(path: str) -> bytes:
            with urlopen(where + path, timeout=60) as response:
                body: bytes = response.read()
                return body

        assert json.loads(await asyncio.to_thread(read, "/streaming/serverz"))["cluster_id"] == CLUSTER
        assert b"/streaming/channelsz" in await asyncio.to_thread(read, "/streaming")
        assert await asyncio.to_thread(read, "/streaming/isFTActive") == b""
        with pytest.raises(HTTPError):
            await asyncio.to_thread(read, "/streaming/channelsz?channel=none")
