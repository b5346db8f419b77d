"""What could not be opened is tried again: after pauses, sooner when asked, and no more once all is open."""

from __future__ import annotations

import pytest

from headwater.control.reopening import Reopening
from waits import until


async def test_it_is_tried_until_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.control.reopening.FIRST_PAUSE_S", 0.001)
    left = [True, True, False]
    tried = 0

    async def attempt() -> bool:
        nonlocal tried
        tried += 1
        return left.pop(0)

    reopening = Reopening(attempt)
    reopening.start()
    reopening.start()
    await until(lambda: not left)
    assert tried == 3
    await reopening.close()


async def test_a_request_does_not_wait_for_a_long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.control.reopening.FIRST_PAUSE_S", 0.001)
    tried = 0

    async def attempt() -> bool:
        nonlocal tried
        tried += 1
        monkeypatch.setattr("headwater.control.reopening.LONGEST_PAUSE_S", 3600)
        return True

    reopening = Reopening(attempt)
    reopening.start()
    for wanted in range(1, 15):  # by then a pause takes seconds
        await until(lambda wanted=wanted: reopening.ask() or tried >= wanted)  # type: ignore[misc, func-returns-value]
    await reopening.close()
