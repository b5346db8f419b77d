"""Where nobody else can own a store, nothing is ever fenced."""

from __future__ import annotations

from headwater.fence import NO_FENCE, Fence


def test_what_nobody_else_can_own_is_never_fenced() -> None:
    fence: Fence = NO_FENCE
    fence.check()
    assert fence.epoch == 0
