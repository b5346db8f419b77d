"""Transfers are few at a time and end when the door closes."""

from __future__ import annotations

import asyncio

import pytest

from headwater.api.transfers import AT_ONCE, Transfers
from headwater.errors import ApiError


async def test_one_transfer_too_many_is_refused_until_another_has_ended() -> None:
    transfers, go = Transfers(), asyncio.Event()

    async def work() -> None:
        await go.wait()

    for number in range(AT_ONCE):
        transfers.start(f"t{number}", work())
    with pytest.raises(ApiError) as refused:
        transfers.start("one more", work())
    assert refused.value.err_code == 10008
    go.set()
    while transfers._tasks:
        await asyncio.sleep(0)
    transfers.start("again", work())
    await transfers.close()


async def test_closing_ends_what_is_under_way() -> None:
    transfers, ended = Transfers(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    transfers.start("endless", work())
    await asyncio.sleep(0)
    await transfers.close()
    assert ended.is_set()
