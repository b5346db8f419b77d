"""Tests of stan.outbox."""

from __future__ import annotations

from doors import connected
from headwater.stan.outbox import Outbox
from servers import nats_server
from sinks import KeptSink


async def test_what_is_delivered_is_counted_and_arrives_in_order() -> None:
    async with nats_server() as server:
        connection = await connected(server.client_url)
        sink = KeptSink()
        connection.subscribe(b"in.*", sink)
        outbox = Outbox(connection)
        outbox.answer(b"in.reply", b"")
        outbox.answer(b"", b"nobody asked for an answer")
        outbox.deliver(b"in.box", [b"3\r\none\r\n", b"3\r\ntwo\r\n"])
        outbox.deliver(b"in.box", [])
        outbox.write(b"PUB in.raw 0\r\n\r\n")
        await outbox.writable()
        frames = await sink.got(4)
        assert [(frame[0], frame[3]) for frame in frames] == [
            (b"in.reply", b""),
            (b"in.box", b"one"),
            (b"in.box", b"two"),
            (b"in.raw", b""),
        ]
        assert (outbox.out_msgs, outbox.out_bytes) == (2, 6)
        assert outbox.max_payload == 1 << 20
        await connection.close()
