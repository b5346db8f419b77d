"""Tests of stan.channels."""

from __future__ import annotations

from pathlib import Path

import pytest

from doors import Wanted, opened_door
from headwater.stan import refusals
from headwater.stan.channels import MARK
from headwater.wire.stan_messages import FIRST
from stan_door import Streaming, stan_on, streaming
from waits import until


async def config_of(server: Streaming, stream: str) -> dict[str, object]:
    answer = await server.door.asker.ask(f"STREAM.INFO.{stream}")
    config: dict[str, object] = answer["config"]
    return config


async def test_a_channel_is_a_stream_of_its_subject(tmp_path: Path) -> None:
    async with streaming(tmp_path) as server:
        client = await server.client()
        await client.publish("foo.bar", b"x")
        config = await config_of(server, "foo~bar")
        assert config["subjects"] == ["foo.bar"]
        assert (config["max_msgs"], config["max_bytes"], config["max_age"]) == (1_000_000, 1_024_000_000, 0)


async def test_limits_by_name_reach_the_stream(tmp_path: Path) -> None:
    file = tmp_path / "channels.toml"
    file.write_text('["foo.*"]\nmax_msgs = 7\nmax_age_s = 60\nmax_bytes = 0\n')
    async with streaming(tmp_path, stan_channels=file) as server:
        client = await server.client()
        await client.subscribe("foo.bar")
        config = await config_of(server, "foo~bar")
        assert (config["max_msgs"], config["max_bytes"], config["max_age"]) == (7, -1, 60_000_000_000)


async def test_other_limits_are_taken_up_at_the_next_start(tmp_path: Path) -> None:
    async with opened_door(tmp_path, Wanted(leaf=True)) as door:
        async with stan_on(door) as server:
            await (await server.client()).publish_all("foo", [b"x"] * 5)
        async with stan_on(door, stan_max_msgs=2) as server:
            assert (await config_of(server, "foo"))["max_msgs"] == 2
            channel = server.stan.channels.get("foo")
            assert channel is not None
            assert (await channel.stream.reading.state()).messages == 2


async def test_there_are_no_more_channels_than_allowed(tmp_path: Path) -> None:
    async with streaming(tmp_path, stan_max_channels=2) as server:
        client = await server.client()
        await client.publish("a")
        await client.subscribe("b")
        assert (await client.publish("c")).error == "too many channels"
        _, answer = await client.try_subscribe("c")
        assert answer.error == refusals.TOO_MANY_CHANNELS
        assert (await client.publish("a")).error == ""


async def test_channels_that_differ_in_case_alone_are_refused(tmp_path: Path) -> None:
    async with streaming(tmp_path) as server:
        client = await server.client()
        await client.publish("foo")
        assert (await client.publish("Foo")).error == refusals.other_case("Foo", "foo")


async def test_a_stream_of_a_jetstream_client_is_a_channel_too(tmp_path: Path) -> None:
    async with streaming(tmp_path) as server:
        ask = server.door.asker
        await ask.ask("STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders"]})
        await ask.publish("orders", b"from jetstream")
        client = await server.client()
        heard = await client.subscribe("orders", startPosition=FIRST)
        assert (await client.publish("orders", b"from stan")).error == ""
        await ask.publish("orders", b"again")
        assert (await heard.got(3)).datas == [b"from jetstream", b"from stan", b"again"]
        assert MARK not in (await config_of(server, "ORDERS"))["metadata"]  # type: ignore[operator]


async def test_a_channel_inside_another_stream_is_refused(tmp_path: Path) -> None:
    async with streaming(tmp_path) as server:
        await server.door.asker.ask("STREAM.CREATE.ALL", {"name": "ALL", "subjects": ["orders.>"]})
        client = await server.client()
        assert "overlap" in (await client.publish("orders.eu")).error


async def test_a_deleted_stream_takes_its_subscriptions_with_it(tmp_path: Path) -> None:
    async with streaming(tmp_path) as server:
        client = await server.client()
        await client.publish_all("foo", [b"old"] * 3)
        heard = await client.subscribe("foo", durableName="dur", startPosition=FIRST)
        await heard.got(3)
        await server.door.asker.ask("STREAM.DELETE.foo")
        assert (await client.close_subscription(heard)).error == refusals.CHANNEL_UNKNOWN
        assert len(server.stan.subscriptions) == 0
        assert (await client.publish("foo", b"new")).error == ""
        again = await client.subscribe("foo", durableName="dur", startPosition=FIRST)
        await again.got(1)
        assert [(m.sequence, m.data) for m in again.messages] == [(1, b"new")]


async def test_a_stream_re_created_while_the_engine_was_stopped_starts_over(tmp_path: Path) -> None:
    async with opened_door(tmp_path, Wanted(leaf=True)) as door:
        async with stan_on(door) as server:
            client = await server.client()
            await client.publish_all("foo", [b"old"] * 3)
            await (await client.subscribe("foo", durableName="dur", startPosition=FIRST)).got(3)
            await client.close()
        await door.domain.delete_stream("foo")
        async with stan_on(door) as server:
            await client.connect()
            await client.publish("foo", b"new")
            heard = await client.subscribe("foo", durableName="dur", startPosition=FIRST)
            assert (await heard.got(1)).datas == [b"new"]


async def test_a_channel_without_use_is_deleted(tmp_path: Path) -> None:
    async with streaming(tmp_path, stan_max_inactivity_s=0.3) as server:
        client = await server.client()
        heard = await client.subscribe("foo", durableName="dur")
        await client.publish_all("foo", [b"x"] * 3)
        await client.publish("bar")
        await until(lambda: server.stan.channels.get("bar") is None)
        assert server.stan.channels.get("foo") is not None, "it is subscribed to"
        await client.close_subscription(heard)
        await until(lambda: server.stan.channels.get("foo") is None)
        await until(lambda: server.door.domain.names() == [])
        heard = await client.subscribe("foo", startPosition=FIRST)
        await client.publish("foo")
        assert (await heard.got(1)).seqs == [1]


async def test_a_message_on_its_way_keeps_its_channel(tmp_path: Path) -> None:
    async with streaming(tmp_path, stan_max_inactivity_s=3600) as server:
        client = await server.client()
        await client.publish("foo")
        channels, channel = server.stan.channels, server.stan.channels.get("foo")
        assert channel is not None
        channel.stream.publishing.offer([(b"foo", b"", b"", b"on its way")])
        channel.active_ns -= 3600 * 10**9 + 1
        channels.delete_idle(channel, channel.active_ns + 3600 * 10**9 + 1)
        assert channel.is_leaving
        await until(lambda: not channel.is_leaving or channels.get("foo") is None)
        assert channels.get("foo") is channel
        assert (await channel.stream.reading.state()).messages == 2
        assert (await client.publish("foo")).error == ""


@pytest.mark.parametrize("name", ["_STAN.pub.test-cluster.x", "$JS.API.INFO"])
async def test_a_channel_on_subjects_of_the_server_is_refused(tmp_path: Path, name: str) -> None:
    async with streaming(tmp_path) as server:
        client = await server.client()
        assert (await client.publish(name)).error != ""
