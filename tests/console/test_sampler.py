"""The sampler reads each site once for all listeners, and survives what it reads."""

from __future__ import annotations

import asyncio

import pytest

from headwater.client.connection_settings import ConnectionSettings
from headwater.console import sampler as sampler_module
from headwater.console.sampler import LONGEST_S, READ_SHARE, STREAM_S, Sampler, pace_s
from headwater.console.watched_site import WatchedSite
from headwater.errors import Error

NOWHERE = WatchedSite("nowhere", ConnectionSettings(server="nats://127.0.0.1:1"))


async def test_listeners_see_each_read_and_leave_nothing_behind() -> None:
    sampler = Sampler([NOWHERE], 0.05)
    async with sampler.running():
        seen: list[int] = []
        changes = sampler.changes()
        async for version in changes:
            seen.append(version)
            if len(seen) == 3:
                break
        assert sampler.listeners == 1
        await changes.aclose()  # type: ignore[attr-defined]
        assert sampler.listeners == 0
    assert seen == sorted(set(seen))
    assert "connection refused" in sampler.site("nowhere").snapshot.error


async def test_an_answer_that_makes_no_sense_does_not_end_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = Sampler([NOWHERE], 0.01)
    calls = asyncio.Queue[int]()

    async def broken() -> None:
        calls.put_nowait(1)
        raise KeyError("config")

    monkeypatch.setattr(sampler.site("nowhere"), "read", broken)
    async with sampler.running():
        for _ in range(2):
            await asyncio.wait_for(calls.get(), 60)


async def test_a_request_without_a_browser_has_the_sites_read_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler_module, "IDLE_FACTOR", 1e9)
    sampler = Sampler([NOWHERE], 0.001)
    reads: asyncio.Queue[None] = asyncio.Queue()

    async def read() -> None:
        reads.put_nowait(None)

    monkeypatch.setattr(sampler.site("nowhere"), "read", read)
    async with sampler.running():
        await asyncio.wait_for(reads.get(), 60)
        while not reads.empty():
            reads.get_nowait()
        for _ in range(3):
            sampler.want()
            await asyncio.wait_for(reads.get(), 60)


def test_a_site_that_is_not_watched_is_an_error() -> None:
    with pytest.raises(Error, match='there is no site "x"'):
        Sampler([]).site("x")


def test_a_site_that_takes_long_to_read_is_read_less_often() -> None:
    assert pace_s(1.0, 0.01) == 1.0
    assert pace_s(1.0, 1.0) == 1.0 / READ_SHARE
    assert pace_s(1.0, 20.0) == LONGEST_S
    assert pace_s(1.0, 2 * LONGEST_S) == 2 * LONGEST_S
    assert pace_s(1.0, 0.01, streams=1000) == 1000 * STREAM_S
    assert pace_s(1.0, 0.01, streams=100_000) == LONGEST_S
