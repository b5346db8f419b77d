"""Tests of stan.sender."""

from __future__ import annotations

from pathlib import Path

from headwater.model import headers as header_block
from headwater.stan.sender import REPLY_HEADER, reply_of
from headwater.wire.stan_messages import FIRST
from stan_door import streaming
from waits import until


def test_a_reply_subject_is_found_among_other_headers() -> None:
    headers = header_block.build([(b"A", b"b"), (REPLY_HEADER, b"there")])
    assert reply_of(headers) == b"there"
    assert (reply_of(b""), reply_of(header_block.build([(b"A", b"b")]))) == (b"", b"")


async def test_what_limits_took_away_is_passed_over(tmp_path: Path) -> None:
    async with streaming(tmp_path, stan_max_msgs=3) as server:
        client = await server.client()
        await client.publish_all("foo", [b"x"] * 10)
        heard = await client.subscribe("foo", startPosition=FIRST)
        assert (await heard.got(3)).seqs == [8, 9, 10]


async def test_a_message_that_is_gone_is_not_waited_for(tmp_path: Path) -> None:
    async with streaming(tmp_path, stan_max_msgs=2) as server:
        client = await server.client()
        heard = await client.subscribe("foo", acks=False, maxInFlight=1, ackWaitInSecs=1)
        await client.publish("foo")
        await heard.got(1)
        await client.publish_all("foo", [b"x"] * 3)
        await until(lambda: 3 in heard.seqs)
        assert set(heard.seqs) == {1, 3}


async def test_a_long_backlog_comes_from_wherever_it_lies(tmp_path: Path) -> None:
    async with streaming(tmp_path) as server:
        client = await server.client()
        await client.publish_all("foo", [b"%d" % n for n in range(1, 2001)])
        channel = server.stan.channels.get("foo")
        assert channel is not None
        await channel.stream.folder.fold()
        await client.publish_all("foo", [b"%d" % n for n in range(2001, 4001)])
        heard = [await client.subscribe("foo", startPosition=FIRST, maxInFlight=5000) for _ in range(3)]
        for one in heard:
            assert (await one.got(4000)).datas == [b"%d" % n for n in range(1, 4001)]


async def test_what_the_server_would_not_take_is_left_out(tmp_path: Path) -> None:
    async with streaming(tmp_path) as server:
        client = await server.client()
        heard = await client.subscribe("foo", maxInFlight=1)
        await client.publish("foo", b"small")
        answer = await server.door.asker.publish("foo", b"x" * (1 << 20))
        assert answer["seq"] == 2
        await client.publish("foo", b"small again")
        assert (await heard.got(2)).seqs == [1, 3]


async def test_deletes_within_a_channel_leave_gaps(tmp_path: Path) -> None:
    async with streaming(tmp_path) as server:
        client = await server.client()
        await client.publish_all("foo", [b"x"] * 6)
        channel = server.stan.channels.get("foo")
        assert channel is not None
        for seq in (1, 3, 6):
            assert await channel.stream.retention.remove(seq)
        heard = await client.subscribe("foo", startPosition=FIRST)
        await client.publish("foo", b"y")
        assert (await heard.got(4)).seqs == [2, 4, 5, 7]
