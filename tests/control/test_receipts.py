"""A receipt enters its target in parts, and each part with the cursor that covers it."""

from __future__ import annotations

from pathlib import Path

import pytest

from control.copiers import copying, count_is, create, held, publish
from headwater.control import receipts
from headwater.errors import ApiError
from headwater.model.upstream import StreamSource
from headwater.replication.planner import CursorAt
from headwater.replication.upstream import Upstream
from headwater.replication.work import Receipt


@pytest.mark.parametrize("storage", ["file", "memory"])
@pytest.mark.parametrize("window", [0, 10**9])
async def test_a_staged_file_enters_whole_or_message_by_message(
    tmp_path: Path, storage: str, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.replication.result.INLINE_BYTES", 100)
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 50)
        await create(door, name="S", storage=storage, duplicate_window=window, sources=[{"name": "O"}])
        staged: list[Receipt] = []
        copier.between = lambda given: staged.extend(given) or given  # type: ignore[func-returns-value]
        await copier.until(count_is(door, "S", 50))
        assert any(receipt.path or receipt.adopted for receipt in staged)
        assert [m.data for m in await held(door, "S")] == [m.data for m in await held(door, "O")]


async def test_a_full_target_is_an_error_and_the_cursor_stays_behind_what_was_taken(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 5)
        await create(door, name="S", discard="new", max_msgs=2, sources=[{"name": "O"}])
        given: list[Receipt] = []
        copier.between = lambda made: given.extend(made) or []  # type: ignore[func-returns-value]
        await copier.tick()
        upstream = Upstream(door.domain.stream("S"), StreamSource(name="O"), mirrored=False)
        with pytest.raises(ApiError, match="full"):
            await receipts.take(upstream, given[0], CursorAt("x"))
        assert upstream.cursor.seq == 2
