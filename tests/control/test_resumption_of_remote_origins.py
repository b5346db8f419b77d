"""Gaps, re-created origins and direct gets, where the origin is a nats-server or another Headwater domain."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from control.copiers import count_is, create, held
from control.remote_origins import RemoteSites, a_nats_server, another_headwater, remote_sites
from headwater.bus.connection import NoRespondersError
from headwater.model import headers
from waits import until

pytestmark = pytest.mark.usefixtures("impatient")


@pytest.fixture(params=[a_nats_server, another_headwater], ids=lambda site: site.__name__)
async def sites(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RemoteSites]:
    async with remote_sites(request.param, tmp_path) as running:
        yield running


async def fare(sites: RemoteSites, target: str) -> dict[str, Any]:
    info = await sites.door.asker.ask(f"STREAM.INFO.{target}")
    found: dict[str, Any] = info["mirror"] if "mirror" in info else info["sources"][0]
    return found


async def gaps(sites: RemoteSites, target: str) -> list[tuple[int, int, str]]:
    shown = (await fare(sites, target))["headwater"].get("gaps", {"recent": []})
    return [(gap["first_seq"], gap["last_seq"], gap["reason"]) for gap in shown["recent"]]


async def copied(sites: RemoteSites, target: str, count: int) -> None:
    await sites.copier.until(count_is(sites.door, target, count))


@pytest.mark.parametrize(
    ("limits", "reason", "left"),
    [({"max_msgs": 3}, "retention", [1, 2, 8, 9, 10]), ({}, "purge", [1, 2])],
)
async def test_what_was_gone_at_the_origin_is_a_gap(
    sites: RemoteSites, limits: dict[str, Any], reason: str, left: list[int]
) -> None:
    await sites.origin.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o"], **limits})
    await create(sites.door, name="M", mirror=sites.source("O"))
    await sites.pour("o", 2)
    await copied(sites, "M", 2)
    await sites.pour("o", 8, start=2)
    if reason == "purge":
        await sites.origin.ask("STREAM.PURGE.O")
    await copied(sites, "M", len(left))

    async def noted() -> bool:
        await sites.copier.tick()
        return bool(await gaps(sites, "M"))

    await until(noted, "the gap is shown")
    assert await gaps(sites, "M") == [(3, 7 if limits else 10, reason)]
    assert [m.seq for m in await held(sites.door, "M")] == left


async def test_a_re_created_origin_stops_a_mirror_and_restarts_a_source(sites: RemoteSites) -> None:
    config = {"name": "O", "subjects": ["o"]}
    await sites.origin.ask("STREAM.CREATE.O", config)
    await create(sites.door, name="M", mirror=sites.source("O"))
    await create(sites.door, name="S", sources=[sites.source("O")])
    await sites.pour("o", 4)
    await copied(sites, "M", 4)
    await copied(sites, "S", 4)
    await sites.origin.ask("STREAM.DELETE.O")
    await sites.server.forgotten("O")
    await sites.origin.ask("STREAM.CREATE.O", config)
    await sites.pour("o", 2)
    await copied(sites, "S", 6)
    assert (await fare(sites, "S"))["headwater"]["restarts"]["count"] == 1

    async def stopped() -> bool:
        await sites.copier.tick()
        return "re-created" in (await fare(sites, "M")).get("error", {}).get("description", "")

    await until(stopped, "the mirror shows an error")
    assert (await sites.door.domain.stream("M").reading.state()).messages == 4


async def test_a_mirror_answers_direct_gets_for_a_remote_origin(sites: RemoteSites) -> None:
    await sites.origin.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o"], "allow_direct": True})
    await sites.pour("o", 3)
    await create(sites.door, name="M", mirror=sites.source("O"), mirror_direct=True)
    await copied(sites, "M", 3)

    async def answered() -> bool:
        await sites.copier.tick()
        try:
            frame = await sites.door.asker.raw("$JS.lake.API.DIRECT.GET.O", {"seq": 2})
        except NoRespondersError:
            return False
        assert (headers.get(frame[2], b"Nats-Stream"), frame[3]) == (b"M", b"1")
        return True

    await until(answered, "the mirror answers")
    frame = await sites.origin.raw(f"{sites.api}.DIRECT.GET.O", {"seq": 2})
    assert headers.get(frame[2], b"Nats-Stream") == b"O", "at home the origin answers"
    answer = await create(sites.door, name="O", subjects=["here"])
    assert not answer["config"]["allow_direct"]
    with pytest.raises(NoRespondersError):
        await sites.door.asker.raw("$JS.lake.API.DIRECT.GET.O", {"seq": 2})
