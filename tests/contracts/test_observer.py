"""What holds for everything that observes the streams of an account: it follows changes, and forgets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from doors import Door, opened_door
from headwater.control.housekeeper import Housekeeper
from headwater.control.observers import Observer
from headwater.model.stream import StreamConfig
from headwater.settings import Settings
from headwater.stream.stream import Stream

OLD = StreamConfig(name="S", subjects=("s.>",), description="old")
NEW = StreamConfig(name="S", subjects=("s.>", "t.>"), description="new")


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    async with opened_door(tmp_path) as running:
        clock = running.domain._services.clock
        running.domain.observe(Housekeeper(Settings(store=tmp_path), clock))
        yield running


def held(observer: Observer) -> list[Stream]:
    """Return the streams in the containers of an observer, as keys and as values."""
    found: list[object] = []
    for value in getattr(observer, "__dict__", {}).values():
        if isinstance(value, dict):
            found += [*value, *value.values()]
        elif isinstance(value, set | list | tuple):
            found += value
    return [one for one in found if isinstance(one, Stream)]


async def test_a_closed_stream_is_forgotten_by_every_observer(door: Door) -> None:
    stream, _ = await door.domain.create_stream(OLD)
    await door.domain.update_stream(NEW)
    await door.domain.delete_stream("S")
    observers = door.domain._observers
    names = {type(observer).__name__ for observer in observers}
    assert names >= {"Consumers", "Upstreams", "Ingest", "Housekeeper", "DirectGets", "Advisories"}
    assert {type(each).__name__: held(each) for each in observers if stream in held(each)} == {}


async def test_a_stream_of_the_same_name_is_served_after_the_first_one(door: Door) -> None:
    for data in (b"first", b"second"):
        await door.domain.create_stream(OLD)
        await door.connection.flush()  # the server must know the subscriptions
        assert (await door.asker.publish("s.1", data))["seq"] == 1
        await door.domain.update_stream(NEW)
        await door.connection.flush()
        assert (await door.asker.publish("t.1", data))["seq"] == 2
        await door.domain.delete_stream("S")


async def test_an_observer_that_comes_late_sees_the_streams_that_are_open(door: Door) -> None:
    await door.domain.create_stream(OLD)
    late = Housekeeper(Settings(), door.domain._services.clock)
    door.domain.observe(late)
    assert held(late) != []
