"""Tests of monitor.consumer_numbers."""

from __future__ import annotations

from pathlib import Path

from doors import Wanted, opened_door
from headwater.monitor.consumer_numbers import FAMILIES, consumer_numbers, write_consumers
from headwater.monitor.exposition import Exposition, labels
from monitor.families import parsed


async def test_a_row_shows_what_was_delivered_acknowledged_and_waits(tmp_path: Path) -> None:
    async with opened_door(tmp_path, Wanted(leaf=True)) as door:
        ask = door.asker.ask
        await ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        body = {"stream_name": "S", "config": {"durable_name": "c", "ack_policy": "explicit"}}
        await ask("CONSUMER.DURABLE.CREATE.S.c", body)
        for _ in range(3):
            await door.asker.publish("s", b"x")
        replies = door.asker.listen("INBOX.1")
        door.asker.connection.publish(b"$JS.API.CONSUMER.MSG.NEXT.S.c", b"2", b"INBOX.1", b"")
        first = await replies.next()
        await replies.next()
        await door.asker.raw(first[1].decode(), b"+ACK")
        consumer = door.consumers.get(door.domain.stream("S"), "c")
        await consumer.info()
        exposition = Exposition()
        write_consumers(exposition, [(labels(consumer_name="c"), consumer_numbers(consumer))])
        found = parsed(exposition.text())
        assert set(found) == {family.name for family in FAMILIES}
        shown = {name.removeprefix("jetstream_consumer_"): samples[0][1] for name, samples in found.items()}
        assert shown == {
            "delivered_consumer_seq": 2,
            "delivered_stream_seq": 2,
            "ack_floor_consumer_seq": 1,
            "ack_floor_stream_seq": 1,
            "num_ack_pending": 1,
            "num_redelivered": 0,
            "num_waiting": 0,
            "num_pending": 1,
        }
