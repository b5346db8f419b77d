"""Tests of stan.subscriptions: limits, and what holds after a client was absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from doors import Wanted, opened_door
from headwater.stan import records, refusals
from headwater.stan.flow import ChannelFlow
from headwater.stan.records import Records
from headwater.stan.subscription import SharedFlow
from headwater.wire.stan_messages import FIRST
from stan_door import stan_on, streaming
from waits import until


async def test_a_channel_has_no_more_subscriptions_than_allowed(tmp_path: Path) -> None:
    async with streaming(tmp_path, stan_max_subs=2) as server:
        client = await server.client()
        heard = await client.subscribe("foo", durableName="dur")
        await client.subscribe("foo", qGroup="g")
        for fields in ({}, {"qGroup": "g"}, {"durableName": "other"}):
            _, answer = await client.try_subscribe("foo", **fields)  # type: ignore[arg-type]
            assert answer.error == refusals.TOO_MANY_SUBSCRIPTIONS
        await client.close_subscription(heard)
        _, answer = await client.try_subscribe("foo")
        assert answer.error == refusals.TOO_MANY_SUBSCRIPTIONS, "the durable still counts"
        await client.subscribe("foo", durableName="dur")


async def test_a_durable_in_use_can_be_had_where_that_is_set(tmp_path: Path) -> None:
    async with streaming(tmp_path, stan_replace_durable=True) as server:
        client = await server.client()
        old = await client.subscribe("foo", acks=False, durableName="dur")
        await client.publish("foo", b"one")
        await old.got(1)
        new = await client.subscribe("foo", durableName="dur")
        await client.publish("foo", b"two")
        assert (await new.got(2)).datas == [b"one", b"two"]
        assert old.seqs == [1]


async def test_subscriptions_continue_after_a_restart_without_action_by_clients(tmp_path: Path) -> None:
    async with opened_door(tmp_path, Wanted(leaf=True)) as door:
        async with stan_on(door) as server:
            client = await server.client()
            heard = await client.subscribe("foo", acks=False, startPosition=FIRST)
            await client.publish_all("foo", [b"x"] * 3)
            await heard.got(3)
            heard.ack(1)
            heard.ack(3)
            await client.ping()
            heard.acks = True
        async with stan_on(door) as server:
            assert (await client.publish("foo", b"y")).error == ""
            await heard.got(5)
            received = [(m.sequence, m.redelivered) for m in heard.messages[3:]]
            assert received == [(2, True), (4, False)]
            assert (await client.close_subscription(heard)).error == ""


@pytest.mark.parametrize("crashed", [True, False])
async def test_what_was_perhaps_delivered_before_a_crash_says_that_it_comes_again(
    tmp_path: Path, crashed: bool
) -> None:
    async with opened_door(tmp_path, Wanted(leaf=True)) as door:
        async with stan_on(door) as server:
            client = await server.client()
            heard = await client.subscribe("foo", durableName="dur")
            other = await client.subscribe("foo", durableName="away")
            await client.publish_all("foo", [b"x"] * 3)
            await heard.got(3)
            await other.got(3)
            assert (await client.close_subscription(other)).error == ""
        # As if the engine had died before it recorded that the last two were sent.
        kept = Records(tmp_path / "stan.db")
        assert kept.server()["stopped"] == "yes"
        rows = [SharedFlow(row.number, row.key, ChannelFlow(1)) for row in kept.flows()]
        moved = [records.move_flow(shared) for shared in rows]
        kept.write([*moved, *([records.keep("stopped", "no")] * crashed)])
        kept.close()
        async with stan_on(door) as server:
            await client.publish("foo", b"y")
            await heard.got(6)
            received = [(m.sequence, m.redelivered, m.redeliveryCount) for m in heard.messages[3:]]
            assert received == [(2, crashed, crashed), (3, crashed, crashed), (4, False, 0)]
            other = await client.subscribe("foo", durableName="away")
            await other.got(3)
            assert not any(m.redelivered for m in other.messages), (
                "nobody was subscribed: the record is exact"
            )


async def test_a_position_behind_the_end_that_a_channel_lost_is_set_back_to_it(tmp_path: Path) -> None:
    async with opened_door(tmp_path, Wanted(leaf=True)) as door:
        async with stan_on(door) as server:
            client = await server.client()
            heard = await client.subscribe("foo", acks=False, durableName="dur", startPosition=FIRST)
            await client.publish_all("foo", [b"x"] * 3)
            await heard.got(3)
            await client.ping()
        # As if two more had been sent whose messages a damaged log has lost since.
        kept = Records(tmp_path / "stan.db")
        (row,) = kept.flows()
        flow = ChannelFlow(5, [2, 4, 5])
        kept.write([records.move_flow(SharedFlow(row.number, row.key, flow))])
        kept.close()
        async with stan_on(door) as server:
            await client.publish("foo", b"new")
            await heard.got(5)
            assert [(m.sequence, m.data) for m in heard.messages[3:]] == [(2, b"x"), (4, b"new")]


async def test_a_group_continues_after_a_restart(tmp_path: Path) -> None:
    async with opened_door(tmp_path, Wanted(leaf=True)) as door:
        async with stan_on(door) as server:
            clients = [await server.client(f"c{n}") for n in range(3)]
            members = [await client.subscribe("foo", qGroup="g") for client in clients]
            await clients[0].publish_all("foo", [b"x"] * 30)
            await until(lambda: sum(len(m.seqs) for m in members) == 30)
            await clients[0].ping()
        async with stan_on(door) as server:
            await clients[0].publish_all("foo", [b"x"] * 30)
            await until(lambda: len({seq for m in members for seq in m.seqs}) == 60)
            assert len(server.stan.subscriptions) == 3


async def test_a_subscriber_that_comes_back_gets_what_it_missed_before_anything_new(tmp_path: Path) -> None:
    async with streaming(tmp_path) as server:
        publisher, client = await server.client("pub"), await server.client("sub")
        heard = await client.subscribe("foo", acks=False)
        await publisher.publish_all("foo", [b"x"] * 2)
        await heard.got(2)
        (subscription,) = server.stan.subscriptions.of_client("sub")
        sid = next(
            sid for sid, s in client.connection._subscriptions.items() if s.subject == heard.inbox.encode()
        )
        client.connection.unsubscribe(sid)
        await until(lambda: not subscription.member.is_ready)
        await publisher.publish_all("foo", [b"y"] * 2)
        client.connection.subscribe(heard.inbox.encode(), heard)
        await heard.got(6)
        assert heard.seqs == [1, 2, 1, 2, 3, 4]
        assert [m.redelivered for m in heard.messages] == [False, False, True, True, False, False]


async def test_without_a_leaf_every_subscriber_counts_as_present(tmp_path: Path) -> None:
    async with opened_door(tmp_path) as door:
        async with stan_on(door) as server:
            client = await server.client()
            heard = await client.subscribe("foo")
            await client.publish("foo")
            await heard.got(1)
            await client.ping()
        async with stan_on(door) as server:
            await client.publish("foo")
            await until(lambda: 2 in heard.seqs)
