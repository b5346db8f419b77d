"""An engine that delivers, with a stream and consumers on it, for tests of how consumers are served."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from doors import Door, Replies, Wanted, opened_door
from headwater.control.consumer_rules import CreateAddress
from headwater.delivery.consumer import Consumer
from headwater.model.consumer import AckPolicy, ConsumerConfig, CreateRequest
from headwater.model.stream import StreamConfig
from headwater.stream.stream import Stream


@asynccontextmanager
async def opened(store: Path, *subjects: str, **config: Any) -> AsyncIterator[tuple[Door, Stream]]:
    """Run an engine that delivers, with a stream that holds a message on each subject."""
    async with opened_door(store, Wanted(leaf=True)) as door:
        if "S" not in door.domain.names():
            await door.domain.create_stream(StreamConfig(name="S", subjects=("s.>",), **config))
            await door.connection.flush()
        for subject in subjects:
            await door.asker.publish(subject, subject.encode())
        yield door, door.domain.stream("S")


async def create(door: Door, stream: Stream, name: str = "C", **fields: Any) -> Consumer:
    """Return a durable consumer that acknowledges explicitly unless given otherwise."""
    fields = {"durable_name": name, "ack_policy": AckPolicy.EXPLICIT, **fields}
    request = CreateRequest(stream_name="S", config=ConsumerConfig(**fields))
    await door.consumers.create(stream, request, CreateAddress("S", name))
    return door.consumers.get(stream, name)


async def pulled(door: Door, count: int, name: str = "C") -> list[tuple[bytes, bytes, bytes, bytes]]:
    """Return messages that a client pulled."""
    box: Replies = door.asker.listen("box")
    await door.asker.connection.flush()
    subject = f"$JS.API.CONSUMER.MSG.NEXT.S.{name}".encode()
    door.asker.connection.publish(subject, b"%d" % count, b"box")
    return [await box.next() for _ in range(count)]
