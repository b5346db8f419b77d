"""What holds for every fence: that of a store on disk, and none."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.control.ownership import Ownership
from headwater.fence import NO_FENCE, Fence, check_committed


@pytest.fixture(params=["owned", "none"])
def fence(request: pytest.FixtureRequest, tmp_path: Path) -> Fence:
    if request.param == "none":
        return NO_FENCE
    ownership = Ownership(tmp_path)
    ownership.take()
    return ownership


def test_the_owner_passes_as_often_as_it_asks(fence: Fence) -> None:
    for _ in range(3):
        fence.check()
        check_committed(fence)


def test_the_epoch_of_an_ownership_does_not_change(fence: Fence) -> None:
    before = fence.epoch
    fence.check()
    assert fence.epoch == before >= 0
