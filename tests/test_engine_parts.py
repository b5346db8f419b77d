"""The parts that seats share are opened on the store that the engine owns, and closed when it stops."""

from __future__ import annotations

import stat
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from headwater.control.ownership import Ownership
from headwater.control.reserve import Reserve
from headwater.engine_parts import open_parts
from headwater.monitor.engine_monitor import EngineMonitor
from headwater.settings import Settings


async def opened_epoch(store: Path) -> int:
    """Open the parts of an engine, close them, and return the epoch that the engine had."""
    settings, ownership = Settings(store=store, replicator="submitted"), Ownership(store)
    ownership.take()
    async with AsyncExitStack() as stack:
        parts = await open_parts(
            settings, ownership, Reserve(store, size=0, needed=0), stack, EngineMonitor(settings, store)
        )
        assert parts.catalog.epoch == ownership.epoch
        assert stat.S_IMODE(parts.handover.stat().st_mode) == 0o600
        assert parts.secret.decode() in parts.handover.read_text()
    with pytest.raises(RuntimeError):
        parts.sync_executor.submit(int)
    return ownership.epoch


async def test_an_epoch_file_that_was_lost_does_not_lower_the_epoch(tmp_path: Path) -> None:
    assert [await opened_epoch(tmp_path), await opened_epoch(tmp_path)] == [1, 2]
    (tmp_path / "epoch").unlink()
    assert await opened_epoch(tmp_path) == 3
