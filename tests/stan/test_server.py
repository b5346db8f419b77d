"""Tests of stan.server: what clients get, request by request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headwater.stan import refusals
from headwater.wire import stan_messages as wire
from headwater.wire.stan_messages import FIRST, LAST_RECEIVED, SEQUENCE, TIME_DELTA
from stan_door import CLUSTER, Streaming, streaming
from waits import until


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Streaming]:
    async with streaming(tmp_path) as running:
        yield running


def numbered(count: int, start: int = 1) -> list[bytes]:
    return [b"%d" % n for n in range(start, start + count)]


async def test_a_client_learns_all_subjects_and_its_ping_interval(server: Streaming) -> None:
    client = await server.stranger()
    answer = await client.connect()
    assert (answer.pubPrefix, answer.subRequests) == (f"_STAN.pub.{CLUSTER}", f"_STAN.sub.{CLUSTER}")
    assert (answer.unsubRequests, answer.closeRequests) == (
        f"_STAN.unsub.{CLUSTER}",
        f"_STAN.close.{CLUSTER}",
    )
    assert answer.subCloseRequests == f"_STAN.subclose.{CLUSTER}"
    assert (answer.pingRequests, answer.protocol) == (f"_STAN.discover.{CLUSTER}.pings", 1)
    assert (answer.pingInterval, answer.pingMaxOut, answer.error) == (5, 3, "")


async def test_an_old_client_gets_no_ping_settings(server: Streaming) -> None:
    answer = await (await server.stranger()).connect(protocol=0)
    assert (answer.pingRequests, answer.pingInterval, answer.protocol) == ("", 0, 1)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"heartbeatInbox": ""}, refusals.INVALID_CONNECT),
        ({"heartbeatInbox": "a b"}, refusals.INVALID_CONNECT),
        ({"clientID": ""}, refusals.INVALID_CLIENT_ID),
        ({"clientID": "a.b"}, refusals.INVALID_CLIENT_ID),
    ],
)
async def test_a_connect_without_sense_is_refused(
    server: Streaming, fields: dict[str, str], text: str
) -> None:
    assert (await (await server.stranger()).connect(**fields)).error == text


async def test_bytes_that_are_no_request_are_refused(server: Streaming) -> None:
    client, junk = await server.client(), b"\n\xff"
    subjects = client.subjects
    ask = client.ask
    connect = await ask(f"_STAN.discover.{CLUSTER}", junk, wire.ConnectResponse)
    publish = await ask(f"{subjects.pubPrefix}.foo", junk, wire.PubAck)
    subscribe = await ask(subjects.subRequests, junk, wire.SubscriptionResponse)
    unsubscribe = await ask(subjects.unsubRequests, junk, wire.SubscriptionResponse)
    close = await ask(subjects.closeRequests, junk, wire.CloseResponse)
    assert [answer.error for answer in (connect, publish, subscribe, unsubscribe, close)] == [
        refusals.INVALID_CONNECT,
        refusals.INVALID_PUBLISH,
        refusals.INVALID_SUBSCRIBE,
        refusals.INVALID_UNSUBSCRIBE,
        refusals.INVALID_CLOSE,
    ]


@pytest.mark.parametrize("inside", ["$HEADWATER.x.REPLICATION.COMMIT", "x" * 4000])
async def test_the_engine_sends_nothing_to_internal_or_too_long_subjects(
    server: Streaming, inside: str
) -> None:
    client = await server.client()
    _, subscribed = await client.try_subscribe("foo", inbox=inside)
    assert subscribed.error == refusals.INVALID_SUBSCRIBE
    assert (await client.connect(clientID="other", heartbeatInbox=inside)).error == refusals.INVALID_CONNECT


async def test_an_id_is_refused_while_its_owner_answers(tmp_path: Path) -> None:
    async with streaming(tmp_path, stan_probe_s=60.0) as server:
        first = await server.client()
        second = await server.stranger()
        assert (await second.connect()).error == refusals.CLIENT_REGISTERED
        assert first.heartbeats.asked == 1
        assert not (await first.publish("foo")).error


async def test_an_id_whose_owner_does_not_answer_goes_to_the_next(server: Streaming) -> None:
    first = await server.client()
    first.heartbeats.is_alive = False
    second = await server.client()
    assert (await first.ping()).error == refusals.CLIENT_REPLACED
    assert (await first.publish("foo")).error == refusals.INVALID_PUBLISH
    assert not (await second.ping()).error
    assert not (await second.publish("foo")).error


async def test_an_id_that_is_being_asked_about_is_refused_at_once(server: Streaming) -> None:
    await (await server.client()).die()
    second, third = await server.stranger(), await server.stranger()
    answers = await asyncio.gather(second.connect(), third.connect())
    assert sorted(answer.error for answer in answers) == ["", refusals.CLIENT_REGISTERED]


async def test_a_ping_of_an_unknown_connection_is_refused(server: Streaming) -> None:
    client = await server.client()
    client.conn_id = b"another"
    assert (await client.ping()).error == "client has been replaced or is no longer registered"


async def test_a_client_says_good_bye_once(server: Streaming) -> None:
    client = await server.client()
    assert (await client.close()).error == ""
    assert (await client.close()).error == refusals.CLIENT_UNKNOWN


async def test_a_publish_is_acknowledged_with_its_guid(server: Streaming) -> None:
    client = await server.client()
    answer = await client.publish("foo", b"x", guid="my guid")
    assert (answer.guid, answer.error) == ("my guid", "")


@pytest.mark.parametrize(
    "fields",
    [{"guid": ""}, {"subject": ""}, {"subject": "a.*"}, {"subject": "a/b"}, {"connID": b"x"}],
)
async def test_a_publish_without_sense_is_refused(server: Streaming, fields: dict[str, Any]) -> None:
    client = await server.client()
    assert (await client.publish("foo", b"x", **fields)).error == refusals.INVALID_PUBLISH


async def test_a_publish_without_a_connection_id_counts_by_client_id(server: Streaming) -> None:
    client = await server.client()
    assert (await client.publish("foo", connID=b"")).error == ""
    assert (await client.publish("foo", connID=b"", clientID="who")).error == refusals.INVALID_PUBLISH


async def test_what_servers_say_to_each_other_is_no_publish(server: Streaming) -> None:
    client = await server.client()
    heard = await client.subscribe("foo")
    control = wire.CtrlMsg(MsgType=3, ServerID="", RefID="x").SerializeToString()
    client.connection.publish(f"{client.subjects.pubPrefix}.foo".encode(), control, b"_INBOX.nobody")
    assert (await client.publish("foo")).error == ""
    assert (await heard.got(1)).seqs == [1]


async def test_a_subscriber_has_a_message_before_its_publisher_has_the_answer(server: Streaming) -> None:
    client = await server.client()
    heard = await client.subscribe("foo")
    for n in range(1, 51):
        await client.publish("foo", b"%d" % n)
        assert heard.seqs == list(range(1, n + 1))


async def test_messages_come_as_they_were_published(server: Streaming) -> None:
    client = await server.client()
    heard = await client.subscribe("foo.bar")
    await client.publish("foo.bar", b"data", reply="answer.here")
    (message,) = (await heard.got(1)).messages
    assert (message.sequence, message.subject, message.reply) == (1, "foo.bar", "answer.here")
    assert (message.data, message.redelivered, message.redeliveryCount) == (b"data", False, 0)
    assert message.timestamp > 0


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"startPosition": FIRST}, [1, 2, 3, 4, 5, 6]),
        ({"startPosition": LAST_RECEIVED}, [5, 6]),
        ({"startPosition": SEQUENCE, "startSequence": 3}, [3, 4, 5, 6]),
        ({"startPosition": SEQUENCE, "startSequence": 0}, [1, 2, 3, 4, 5, 6]),
        ({"startPosition": SEQUENCE, "startSequence": 99}, [6]),
        ({"startPosition": TIME_DELTA, "startTimeDelta": 3_600_000_000_000}, [1, 2, 3, 4, 5, 6]),
        ({"startPosition": TIME_DELTA, "startTimeDelta": -1}, [6]),
        ({}, [6]),
    ],
)
async def test_a_subscription_begins_where_it_asks(
    server: Streaming, fields: dict[str, Any], expected: list[int]
) -> None:
    client = await server.client()
    await client.publish_all("foo", numbered(5))
    heard = await client.subscribe("foo", **fields)
    await client.publish("foo")
    assert (await heard.got(len(expected))).seqs == expected


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"clientID": ""}, refusals.CLIENT_MISSING),
        ({"ackWaitInSecs": 0}, refusals.INVALID_ACK_WAIT),
        ({"ackWaitInSecs": -1}, refusals.INVALID_ACK_WAIT),
        ({"maxInFlight": 0}, refusals.INVALID_MAX_IN_FLIGHT),
        ({"startPosition": 5}, refusals.INVALID_START),
        ({"subject": "foo.*"}, refusals.INVALID_CHANNEL),
        ({"subject": ""}, refusals.INVALID_CHANNEL),
        ({"inbox": "a b"}, refusals.INVALID_SUBSCRIBE),
        ({"clientID": "stranger"}, refusals.CLIENT_UNKNOWN),
        ({"durableName": "a:b", "qGroup": "g"}, refusals.INVALID_DURABLE),
    ],
)
async def test_a_subscribe_without_sense_is_refused(
    server: Streaming, fields: dict[str, Any], text: str
) -> None:
    client = await server.client()
    _, answer = await client.try_subscribe("foo", **fields)
    assert (answer.error, answer.ackInbox) == (text, "")


async def test_no_more_than_max_in_flight_wait_for_acknowledgement(server: Streaming) -> None:
    client = await server.client()
    heard = await client.subscribe("foo", acks=False, maxInFlight=3)
    await client.publish_all("foo", numbered(10))
    await heard.got(3)
    heard.ack(2)
    await heard.got(4)
    await client.ping()
    assert heard.seqs == [1, 2, 3, 4]


async def test_what_is_not_acknowledged_comes_again_and_says_so(server: Streaming) -> None:
    client = await server.client()
    heard = await client.subscribe("foo", acks=False, maxInFlight=1, ackWaitInSecs=1)
    await client.publish_all("foo", [b"one", b"two"])
    await heard.got(3)
    three = heard.messages[:3]
    assert [m.data for m in three] == [b"one"] * 3
    assert [(m.redelivered, m.redeliveryCount) for m in three] == [(False, 0), (True, 1), (True, 2)]
    heard.ack(1)
    await until(lambda: heard.seqs[-1] == 2)


async def test_a_durable_continues_where_it_was_left(server: Streaming) -> None:
    client = await server.client()
    heard = await client.subscribe("foo", acks=False, durableName="dur", startPosition=FIRST)
    await client.publish_all("foo", numbered(3))
    await heard.got(3)
    heard.ack(1)
    heard.ack(3)
    assert (await client.close_subscription(heard)).error == ""
    await client.publish_all("foo", numbered(2, 4))
    again = await client.subscribe("foo", durableName="dur", startPosition=FIRST)
    await again.got(3)
    assert [(m.sequence, m.redelivered) for m in again.messages] == [(2, True), (4, False), (5, False)]
    assert heard.seqs == [1, 2, 3]


async def test_a_durable_outlives_its_client_and_not_its_unsubscribe(server: Streaming) -> None:
    client = await server.client()
    await client.publish("foo")
    heard = await client.subscribe("foo", durableName="dur", startPosition=FIRST)
    await heard.got(1)
    await client.close()
    client = await server.client()
    await client.publish("foo")
    heard = await client.subscribe("foo", durableName="dur", startPosition=FIRST)
    assert (await heard.got(1)).seqs == [2]
    assert (await client.unsubscribe(heard)).error == ""
    heard = await client.subscribe("foo", durableName="dur", startPosition=FIRST)
    assert (await heard.got(2)).seqs == [1, 2]


async def test_a_durable_is_in_use_once_per_client(server: Streaming) -> None:
    client, other = await server.client(), await server.client("other")
    await client.subscribe("foo", durableName="dur")
    _, answer = await client.try_subscribe("foo", durableName="dur")
    assert answer.error == refusals.DUPLICATE_DURABLE
    await other.subscribe("foo", durableName="dur")


async def test_a_subscription_ends_once(server: Streaming) -> None:
    client = await server.client()
    heard = await client.subscribe("foo")
    assert (await client.unsubscribe(heard, subject="bar")).error == refusals.CHANNEL_UNKNOWN
    assert (await client.unsubscribe(heard, clientID="who")).error == refusals.CLIENT_UNKNOWN
    assert (await client.unsubscribe(heard)).error == ""
    assert (await client.unsubscribe(heard)).error == refusals.SUBSCRIPTION_UNKNOWN
    assert (await client.close_subscription(heard)).error == refusals.SUBSCRIPTION_UNKNOWN
    await client.publish("foo")
    assert heard.seqs == []


async def test_a_subscription_is_found_by_its_inbox_too(server: Streaming) -> None:
    client = await server.client()
    heard = await client.subscribe("foo")
    assert (await client.close_subscription(heard, inbox=heard.inbox)).error == ""
    assert len(server.stan.subscriptions) == 0


async def test_members_of_a_queue_group_share_the_messages(server: Streaming) -> None:
    clients = [await server.client(f"c{n}") for n in range(4)]
    members = [await client.subscribe("foo", qGroup="group") for client in clients]
    alone = await clients[0].subscribe("foo")
    await clients[0].publish_all("foo", numbered(200))
    await until(lambda: sum(len(member.seqs) for member in members) == 200)
    assert sorted(seq for member in members for seq in member.seqs) == list(range(1, 201))
    assert all(member.seqs == sorted(member.seqs) and member.seqs for member in members)
    assert (await alone.got(200)).seqs == list(range(1, 201))


async def test_what_a_member_left_behind_goes_to_another_at_once(server: Streaming) -> None:
    one, two = await server.client("one"), await server.client("two")
    first = await one.subscribe("foo", acks=False, qGroup="g", durableName="d")
    await one.publish_all("foo", numbered(5))
    await first.got(5)
    second = await two.subscribe("foo", qGroup="g", durableName="d")
    await one.close()
    await second.got(5)
    assert [(m.sequence, m.redelivered, m.redeliveryCount) for m in second.messages] == [
        (seq, True, 1) for seq in range(1, 6)
    ]


async def test_a_durable_group_stays_when_its_last_member_leaves(server: Streaming) -> None:
    one, two = await server.client("one"), await server.client("two")
    first = await one.subscribe("foo", qGroup="g", durableName="d", startPosition=FIRST)
    await one.publish_all("foo", numbered(3))
    await first.got(3)
    await one.close_subscription(first)
    await two.publish_all("foo", numbered(2, 4))
    second = await two.subscribe("foo", qGroup="g", durableName="d", startPosition=FIRST)
    assert (await second.got(2)).seqs == [4, 5]
    plain = await two.subscribe("foo", qGroup="g", startPosition=FIRST)
    assert (await plain.got(5)).seqs == [1, 2, 3, 4, 5]


async def test_a_group_that_is_not_durable_goes_with_its_last_member(server: Streaming) -> None:
    client = await server.client()
    first = await client.subscribe("foo", qGroup="g", startPosition=FIRST)
    await client.publish_all("foo", numbered(3))
    await first.got(3)
    await client.close_subscription(first)
    second = await client.subscribe("foo", qGroup="g", startPosition=FIRST)
    assert (await second.got(3)).seqs == [1, 2, 3]


async def test_acknowledgements_before_a_close_count(server: Streaming) -> None:
    client = await server.client()
    await client.publish_all("foo", numbered(100))
    for _ in range(5):
        heard = await client.subscribe("foo", durableName="d", startPosition=FIRST)
        await client.publish("foo")
        await heard.got(1)
        channel = server.stan.channels.get("foo")
        assert channel is not None
        reading, seqs = channel.stream.reading, heard.seqs
        await until(lambda reading=reading, seqs=seqs: seqs[-1] == reading.durable_seq)  # type: ignore[misc]
        assert not any(m.redelivered for m in heard.messages)
        await client.close()
        await client.connect()


async def test_many_publishes_in_one_read_come_in_order(server: Streaming) -> None:
    client = await server.client()
    heard = await client.subscribe("foo", maxInFlight=100)
    await client.publish_all("foo", numbered(3000))
    assert (await heard.got(3000)).datas == numbered(3000)
    assert heard.seqs == list(range(1, 3001))
