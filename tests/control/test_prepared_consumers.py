"""The consumers of a stream are read, and their filters built, before the stream is opened."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from control.served_consumers import create, opened
from headwater.control.catalog import Catalog
from headwater.control.catalog_rows import ConsumerRow
from headwater.delivery.tallies import AT_ONCE


async def test_very_many_filters_of_a_stream_that_is_opened_late_are_built_before(tmp_path: Path) -> None:
    filters = tuple(f"s.{number}.*" for number in range(AT_ONCE + 1))
    async with opened(tmp_path, "s.1.x", "s.none") as (door, stream):
        await create(door, stream, filter_subjects=filters)
        door.consumers._catalog.declare_consumer(ConsumerRow("$G", "S", "BAD", '{"wings": 2}', 1))
        door.consumers.on_closed(stream)
        await door.consumers.prepare(stream)
        tallies = door.consumers._prepared._by_name["S"][1].tallies
        assert tallies is not None
        prepared = tallies._by_filters[filters]
        door.consumers.on_opened(stream)
        again = door.consumers.get(stream, "C")
        assert again.tally is prepared
        assert (await again.info()).num_pending == 1
        assert not door.consumers._prepared._by_name


async def test_a_stream_whose_consumers_cannot_be_read_does_not_listen_to_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(self: Catalog, account: str, stream: str) -> list[ConsumerRow]:
        raise sqlite3.OperationalError("disk I/O error")

    async with opened(tmp_path, "s.1") as (door, stream):
        await create(door, stream)
        listener = stream.events.listener
        door.consumers.on_closed(stream)
        with monkeypatch.context() as broken:
            broken.setattr(Catalog, "consumers", unreadable)
            with pytest.raises(sqlite3.OperationalError):
                await door.consumers.prepare(stream)
            with pytest.raises(sqlite3.OperationalError):
                door.consumers.on_opened(stream)
        assert stream.events.listener is listener, "no other one would drop what consumers need"
        await door.consumers.prepare(stream)
        door.consumers.on_opened(stream)
        assert door.consumers.get(stream, "C").name == "C"
