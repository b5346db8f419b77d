"""A change of a store is refused before it is made; a store of one process is never fenced."""

from __future__ import annotations

from errno import EIO
from pathlib import Path

import pytest

from headwater.control.catalog import Catalog
from headwater.control.catalog_rows import StreamRow
from headwater.errors import DiskError
from headwater.fence import NO_FENCE, Fence
from headwater.stan import records
from headwater.stan.flow import ChannelFlow
from headwater.stan.records import Records
from headwater.stan.subscription import FlowKey, SharedFlow


def test_what_no_other_engine_can_own_is_never_fenced() -> None:
    fence: Fence = NO_FENCE
    fence.check()
    assert fence.epoch == 0


class Unreadable:
    """A fence whose record can be read so often and no more."""

    epoch = 1

    def __init__(self, readable: int) -> None:
        self.readable = readable

    def check(self) -> None:
        """Return, or fail as a disk does."""
        self.readable -= 1
        if self.readable < 0:
            raise DiskError(Path("epoch"), "read", EIO)


def test_a_change_is_refused_before_it_is_made_or_not_at_all(tmp_path: Path) -> None:
    fence = Unreadable(1000)
    catalog = Catalog(tmp_path / "catalog.db", fence=fence)
    row = StreamRow("$G", "a", "{}", 1, "identity", "a")
    fence.readable = 0
    with pytest.raises(DiskError):
        catalog.create(row)
    assert catalog.streams("$G") == []
    fence.readable = 2  # before the file next to the data, and before the row
    catalog.create(row)
    assert catalog.streams("$G") == [row]
    catalog.close()


def test_records_of_streaming_are_not_written_twice_when_the_owner_cannot_be_read(tmp_path: Path) -> None:
    fence = Unreadable(1000)
    kept = Records(tmp_path / "stan.db", fence)
    fence.readable = 1
    kept.write([records.add_flow(SharedFlow(1, FlowKey("foo", "me", "dur"), ChannelFlow(9, ())))])
    assert [flow.number for flow in kept.flows()] == [1]
    kept.close()
