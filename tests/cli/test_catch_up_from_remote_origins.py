"""`stream catch-up` with a remote origin: right after a publish, unreachable, deleted, never seen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from control.copiers import be_impatient, count_is, create
from control.remote_origins import RemoteSites, a_nats_server, another_headwater, remote_sites
from headwater.cli.session import Json
from headwater.cli.stream.catch_up import caught_up
from headwater.client import catch_up
from headwater.errors import Error
from waits import until


class DoorSession:
    """Sends requests to the engine that copies."""

    def __init__(self, sites: RemoteSites) -> None:
        self._asker = sites.door.asker

    async def request(self, endpoint: str) -> Json:
        """Return the answer of an endpoint."""
        answer: Json = await self._asker.ask(endpoint)
        assert "error" not in answer, answer
        return answer


@pytest.fixture(params=[a_nats_server, another_headwater], ids=lambda site: site.__name__)
async def sites(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RemoteSites]:
    be_impatient(monkeypatch)
    async with remote_sites(request.param, tmp_path) as running:
        await running.origin.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o"]})
        await create(running.door, name="M", mirror=running.source("O"))
        yield running


async def copied(sites: RemoteSites, count: int) -> None:
    await sites.copier.until(count_is(sites.door, "M", count))


async def finished(sites: RemoteSites, waiting: asyncio.Task[Json]) -> int:
    """Return how many messages the mirror held when the wait ended; a copier runs at the same time."""

    async def ended() -> bool:
        await sites.copier.tick()
        return waiting.done()

    await until(ended, "the wait ends")
    return int((await waiting)["state"]["messages"])


async def test_right_after_a_publish_it_waits_for_what_was_published(sites: RemoteSites) -> None:
    await sites.pour("o", 3)
    await copied(sites, 3)
    await sites.copier.tick()
    await sites.pour("o", 50, start=3)
    waiting = asyncio.create_task(caught_up(DoorSession(sites), "M", 0, False))
    assert await finished(sites, waiting) == 53


async def test_while_the_origin_is_away_it_never_succeeds(
    sites: RemoteSites, capsys: pytest.CaptureFixture[str]
) -> None:
    await sites.pour("o", 3)
    await copied(sites, 3)
    await sites.copier.tick()
    await sites.link.cut()
    await sites.pour("o", 4, start=3)
    with pytest.raises(Error, match=r"stream M has not caught up after .*: O: "):
        await caught_up(DoorSession(sites), "M", 2.0, True)
    assert "waiting for O: " in capsys.readouterr().err
    waiting = asyncio.create_task(caught_up(DoorSession(sites), "M", 0, False))
    await sites.link.restore()
    assert await finished(sites, waiting) == 7


async def test_an_origin_that_was_deleted_is_a_failure(
    sites: RemoteSites, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catch_up, "GONE_S", 0.3)
    await sites.pour("o", 3)
    await copied(sites, 3)
    await sites.origin.ask("STREAM.DELETE.O")
    with pytest.raises(Error, match="stream not found"):
        await caught_up(DoorSession(sites), "M", 0, False)


async def test_an_origin_that_was_never_seen_is_a_failure(sites: RemoteSites) -> None:
    await sites.link.cut()
    await create(sites.door, name="N", sources=[sites.source("O")])
    with pytest.raises(Error, match=r"stream N has not caught up after .*: O: "):
        await caught_up(DoorSession(sites), "N", 1.0, False)
