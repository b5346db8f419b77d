"""The API answers from its start to its stop, for official clients too."""

from __future__ import annotations

from pathlib import Path

import nats
import pytest
from nats.js.api import StreamConfig
from nats.js.errors import BadRequestError, KeyNotFoundError, NotFoundError

from doors import Door, opened_door
from headwater.bus.connection import NoRespondersError


async def test_after_the_stop_there_is_no_answer(tmp_path: Path) -> None:
    async with opened_door(tmp_path) as door:
        await door.asker.ask("INFO")
        await door.api.stop()
        await door.connection.flush()
        with pytest.raises(NoRespondersError):
            await door.asker.ask("INFO")


async def test_the_official_client_lives_with_it(door: Door) -> None:
    client = await nats.connect(door.client_url)
    js = client.jetstream(timeout=60)
    created = await js.add_stream(StreamConfig(name="S", subjects=["s.>"], allow_direct=True))
    assert created.config.name == "S"
    for number in range(5):
        assert (await js.publish("s.1", b"%d" % number)).seq == number + 1
    assert (await js.get_msg("S", 3)).data == b"2"
    assert (await js.get_msg("S", subject="s.1", direct=True)).data == b"4"
    assert (await js.get_last_msg("S", "s.1")).seq == 5
    await js.delete_msg("S", 2)
    with pytest.raises(NotFoundError):
        await js.get_msg("S", 2)
    assert (await js.stream_info("S")).state.messages == 4
    assert await js.find_stream_name_by_subject("s.7") == "S"
    assert [info.config.name for info in await js.streams_info()] == ["S"]
    with pytest.raises(BadRequestError):
        await js.add_stream(name="T", subjects=["s.2"])
    await js.purge_stream("S", keep=1)
    assert (await js.account_info()).streams == 1
    await js.delete_stream("S")
    with pytest.raises(NotFoundError):
        await js.stream_info("S")
    await client.close()


async def test_key_value_buckets_of_the_official_client_work(door: Door) -> None:
    client = await nats.connect(door.client_url)
    js = client.jetstream(timeout=60)
    bucket = await js.create_key_value(bucket="B", history=3)
    first = await bucket.put("k", b"one")
    assert await bucket.update("k", b"two", last=first) == first + 1
    entry = await bucket.get("k")
    assert (entry.value, entry.revision) == (b"two", 2)
    await bucket.delete("k")
    with pytest.raises(KeyNotFoundError):
        await bucket.get("k")
    assert (await bucket.status()).values == 3
    await js.delete_key_value("B")
    await client.close()
