"""What an account may have staged has bounds, and too much is refused."""

from __future__ import annotations

import pytest

from headwater.api import staged_load
from headwater.api.staged_load import NOTHING, PartLoad, StagedLoad
from headwater.errors import ApiError


def test_parts_are_counted_and_forgotten() -> None:
    load = StagedLoad()
    load.change(NOTHING, PartLoad(1, 1, 5, 100))
    load.change(NOTHING, PartLoad(1, 1, 7, 50))
    load.change(PartLoad(1, 1, 5, 100), PartLoad(1, 0, 6))
    assert load.total == (2, 1, 13, 50)
    load.change(PartLoad(1, 0, 6), NOTHING)
    load.change(PartLoad(1, 1, 7, 50), NOTHING)
    assert load.total == NOTHING


@pytest.mark.parametrize(
    ("full", "also_old"),
    [
        (PartLoad(staged_load.MOST_PARTS), False),
        (PartLoad(1, staged_load.MOST_UNFINISHED), False),
        (PartLoad(1, 1, staged_load.MOST_SUBJECTS), True),
    ],
)
def test_a_full_account_refuses_new_parts_and_perhaps_chunks(full: PartLoad, also_old: bool) -> None:
    load = StagedLoad()
    load.require_room(is_new=True)
    load.change(NOTHING, full)
    with pytest.raises(ApiError, match="insufficient resources"):
        load.require_room(is_new=True)
    if not also_old:
        load.require_room(is_new=False)
        return
    with pytest.raises(ApiError, match="insufficient resources"):
        load.require_room(is_new=False)


def test_much_in_memory_is_written_at_once() -> None:
    load = StagedLoad()
    assert not load.is_heavy
    load.change(NOTHING, PartLoad(1, 1, 1, staged_load.MOST_HELD_BYTES + 1))
    assert load.is_heavy
