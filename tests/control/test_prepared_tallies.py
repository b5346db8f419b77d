"""The filters of a stream's consumers are built before the stream is opened."""

from __future__ import annotations

from pathlib import Path

from control.served_consumers import create, opened
from headwater.control.catalog_rows import ConsumerRow
from headwater.delivery.tallies import AT_ONCE


async def test_very_many_filters_of_a_stream_that_is_opened_late_are_built_before(tmp_path: Path) -> None:
    filters = tuple(f"s.{number}.*" for number in range(AT_ONCE + 1))
    async with opened(tmp_path, "s.1.x", "s.none") as (door, stream):
        await create(door, stream, filter_subjects=filters)
        door.consumers._catalog.declare_consumer(ConsumerRow("$G", "S", "BAD", '{"wings": 2}', 1))
        door.consumers.on_closed(stream)
        await door.consumers.prepare(stream)
        prepared = door.consumers._prepared._by_name["S"][1]._by_filters[filters]
        door.consumers.on_opened(stream)
        again = door.consumers.get(stream, "C")
        assert again.tally is prepared
        assert (await again.info()).num_pending == 1
        assert not door.consumers._prepared._by_name
