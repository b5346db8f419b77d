"""Work that hangs is not waited for without end."""

from __future__ import annotations

import asyncio

import pytest

from headwater.bounded import ends


async def test_work_that_ends_is_waited_for() -> None:
    done = []

    async def work() -> None:
        await asyncio.sleep(0)
        done.append(1)

    assert await ends(work(), "work")
    assert done == [1]


async def test_work_that_hangs_is_cancelled_and_named(caplog: pytest.LogCaptureFixture) -> None:
    ended = asyncio.Event()

    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    assert not await ends(hangs(), "closing a thing", 0.01)
    await ended.wait()
    assert "closing a thing did not end in time" in caplog.text


async def test_an_error_of_the_work_is_one_of_the_caller() -> None:
    async def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await ends(fails(), "work")
