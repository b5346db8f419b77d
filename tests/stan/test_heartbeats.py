"""Tests of stan.heartbeats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwater.stan import refusals
from headwater.wire.stan_messages import FIRST
from stan_door import streaming
from waits import until

# Whoever is there has all the time it needs; of whoever is not, nats-server knows at once.
FAST: dict[str, Any] = {"stan_hb_interval_s": 0.05, "stan_hb_timeout_s": 60.0, "stan_hb_fail_count": 2}
LENIENT: dict[str, Any] = {**FAST, "stan_hb_fail_count": 1_000_000}


async def test_a_client_that_answers_stays(tmp_path: Path) -> None:
    async with streaming(tmp_path, **FAST) as server:
        client = await server.client()
        await until(lambda: client.heartbeats.asked >= 5)
        assert (await client.ping()).error == ""


async def test_a_client_that_does_not_answer_is_removed_and_its_durables_stay(tmp_path: Path) -> None:
    async with streaming(tmp_path, **FAST) as server:
        client = await server.client()
        await client.subscribe("foo")
        await client.subscribe("foo", durableName="dur", startPosition=FIRST)
        await client.die()
        await until(lambda: len(server.stan.clients) == 0)
        assert (await client.ping()).error == refusals.CLIENT_REPLACED
        (flow,) = server.stan.channels.get("foo").flows  # type: ignore[union-attr]
        assert (flow.key.durable, flow.subscriptions) == ("dur", [])


async def test_a_client_that_is_silent_is_removed_too(tmp_path: Path) -> None:
    async with streaming(tmp_path, **{**FAST, "stan_hb_timeout_s": 0.1}) as server:
        client = await server.client()
        client.heartbeats.is_alive = False
        await until(lambda: len(server.stan.clients) == 0)
        assert client.heartbeats.asked == 3


async def test_a_client_in_doubt_that_pings_is_asked_at_once(tmp_path: Path) -> None:
    async with streaming(tmp_path, **{**LENIENT, "stan_hb_interval_s": 0.3}) as server:
        client = await server.client()
        await client.die()
        await until(lambda: server.stan.clients.in_doubt("me"))
        await client.revive()
        await client.ping()
        await until(lambda: not server.stan.clients.in_doubt("me"))


async def test_a_member_in_doubt_gets_nothing_while_another_is_there(tmp_path: Path) -> None:
    async with streaming(tmp_path, **LENIENT) as server:
        one, two = await server.client("one"), await server.client("two")
        silent = await one.subscribe("foo", qGroup="g")
        heard = await two.subscribe("foo", qGroup="g")
        await one.die()
        await until(lambda: server.stan.clients.in_doubt("one"))
        await two.publish_all("foo", [b"x"] * 20)
        assert (await heard.got(20)).seqs == list(range(1, 21))
        assert silent.seqs == []
