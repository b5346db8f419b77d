"""Acks arrive as long as a consumer accepts them, and are answered at once otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from control.served_consumers import create, opened, pulled
from headwater.bus.connection import NoRespondersError
from headwater.model.consumer import AckPolicy


async def test_an_ack_that_no_consumer_takes_is_answered_at_once(tmp_path: Path) -> None:
    async with opened(tmp_path, "s.a", "s.b") as (door, stream):
        consumer = await create(door, stream)
        await create(door, stream, "N", ack_policy=AckPolicy.NONE)
        first, second = await pulled(door, 2)
        assert (await door.asker.raw(first[1].decode(), b"+ACK"))[2] == b""
        for subject in (first[1].replace(b".C.", b".X."), first[1].replace(b".C.", b".N.")):
            with pytest.raises(NoRespondersError):
                await door.asker.connection.request(subject, b"+ACK", 30)
        await door.asker.ask("CONSUMER.DELETE.S.C")
        with pytest.raises(NoRespondersError):
            await door.asker.connection.request(second[1], b"+ACK", 30)
        assert consumer.state.num_ack_pending == 1


async def test_a_consumer_that_is_made_again_takes_acks_again(tmp_path: Path) -> None:
    async with opened(tmp_path, "s.a") as (door, stream):
        for _ in range(2):
            consumer = await create(door, stream)
            (message,) = await pulled(door, 1)
            await door.asker.connection.request(message[1], b"+ACK", 30)
            assert consumer.state.num_ack_pending == 0
            await door.consumers.delete(stream, "C")
