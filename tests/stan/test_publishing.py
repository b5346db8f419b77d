"""Tests of stan.publishing."""

from __future__ import annotations

from pathlib import Path

from doors import Wanted, opened_door
from headwater.control.account import AccountLimits
from headwater.errors import Error
from headwater.stan import refusals
from headwater.wire.stan_messages import PubMsg
from stan_door import stan_on, streaming


async def test_a_stream_that_refuses_a_message_says_why_to_its_publisher(tmp_path: Path) -> None:
    async with streaming(tmp_path) as server:
        full = {"name": "FULL", "subjects": ["full"], "max_msgs": 2, "discard": "new"}
        await server.door.asker.ask("STREAM.CREATE.FULL", full)
        client = await server.client()
        answers = [await client.publish("full", b"x", guid=f"g{n}") for n in range(3)]
        assert [answer.guid for answer in answers] == ["g0", "g1", "g2"]
        assert [answer.error for answer in answers] == ["", "", "maximum messages exceeded"]


async def test_publishes_are_counted(tmp_path: Path) -> None:
    async with streaming(tmp_path) as server:
        client = await server.client()
        await client.publish_all("foo", [b"1234"] * 10)
        assert (server.stan.publishing.in_msgs, server.stan.publishing.in_bytes) == (10, 40)


async def test_a_publish_that_wants_no_answer_gets_none(tmp_path: Path) -> None:
    async with streaming(tmp_path) as server:
        client = await server.client()
        heard = await client.subscribe("foo")
        body = PubMsg(clientID="me", guid="g", subject="foo", data=b"quiet").SerializeToString()
        client.connection.publish(f"{client.subjects.pubPrefix}.foo".encode(), body)
        assert (await heard.got(1)).datas == [b"quiet"]


async def test_publishes_to_many_channels_in_one_read_are_all_stored(tmp_path: Path) -> None:
    async with streaming(tmp_path) as server:
        client = await server.client()
        heard = {name: await client.subscribe(name) for name in ("a", "b", "c")}
        datas = [b"%d" % n for n in range(100)]
        for name in heard:
            await client.publish_all(name, datas)
        for one in heard.values():
            assert (await one.got(100)).datas == datas


async def test_what_cannot_be_stored_is_not_acknowledged(tmp_path: Path) -> None:
    async with streaming(tmp_path) as server:
        client = await server.client()
        await client.publish("foo")
        channel = server.stan.channels.get("foo")
        assert channel is not None
        committer = channel.stream._committer
        committer.failure = Error("the disk is full")
        assert "the disk is full" in (await client.publish("foo", b"lost")).error
        committer.failure = None
        assert (await client.publish("foo", b"kept")).error == ""
        assert (await channel.stream.reading.state()).messages == 2


async def test_a_reply_subject_that_no_header_can_hold_is_refused(tmp_path: Path) -> None:
    async with streaming(tmp_path) as running:
        client = await running.client()
        assert not (await client.publish("a", b"1", reply="r" * 60_000)).error
        assert (await client.publish("a", b"2", reply="r" * 66_000)).error == refusals.INVALID_PUBLISH
        assert not (await client.publish("a", b"3")).error
        stored = [m.data async for many in running.door.domain.stream("a").reading.scan(1) for m in many]
        assert stored == [b"1", b"3"]


async def test_what_a_full_account_refuses_is_not_acknowledged(tmp_path: Path) -> None:
    wanted = Wanted(limits=AccountLimits(max_storage=20_000), leaf=True)
    async with opened_door(tmp_path, wanted) as door, stan_on(door, stan_max_bytes=0) as running:
        client = await running.client()
        answers = [await client.publish("foo", b"x" * 3000) for _ in range(8)]
        assert [answer.error for answer in answers] == [""] * 6 + ["resource limits exceeded for account"] * 2
        assert (await door.domain.stream("foo").reading.state()).messages == 6


async def test_what_is_too_large_with_its_reply_subject_is_not_acknowledged(tmp_path: Path) -> None:
    """The reply subject is stored as a header, which can be longer than the subject."""
    async with streaming(tmp_path) as running:
        client = await running.client()
        await client.publish("foo")
        stream = running.door.domain.stream("foo")
        stream._acceptor._admission.max_size = 1000
        assert (await client.publish("foo", b"x" * 990)).error == ""
        large = await client.publish("foo", b"x" * 990, reply="r")
        assert large.error == "message size exceeds maximum allowed"
        assert (await stream.reading.state()).messages == 2
