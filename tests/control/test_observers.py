"""Tests of control.observers."""

from __future__ import annotations

from pathlib import Path

import pytest

from control.domains import Seen, on
from headwater.control.domain import Domain
from headwater.control.observers import Observers
from headwater.model.stream import StreamConfig
from headwater.stream.stream import Stream


async def test_all_observers_are_notified_in_order_and_prepare_before(tmp_path: Path) -> None:
    events: list[tuple[str, str]] = []
    seen, observers = Seen(), Observers()
    seen.events = events

    async def prepare(stream: Stream) -> None:
        events.append(("prepared", stream.name))

    async def work(domain: Domain) -> None:
        stream, _ = await domain.create_stream(StreamConfig(name="S", description="old"))
        observers.add(seen, prepare)
        observers.add(Seen())
        await observers.prepare(stream)
        observers.on_opened(stream)
        observers.on_changed(stream, stream.config)
        observers.on_closed(stream)

    await on(tmp_path, work)
    assert [what for what, _ in events] == ["prepared", "opened", "changed from 'old'", "closed"]
    assert next(iter(observers)) is seen


async def test_an_observer_that_cannot_prepare_is_reported(tmp_path: Path) -> None:
    observers = Observers()

    async def prepare(stream: Stream) -> None:
        raise OSError("no such row")

    async def work(domain: Domain) -> None:
        stream, _ = await domain.create_stream(StreamConfig(name="S"))
        observers.add(Seen(), prepare)
        with pytest.raises(OSError, match="no such row"):
            await observers.prepare(stream)

    await on(tmp_path, work)
