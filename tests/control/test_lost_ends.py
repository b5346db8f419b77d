"""A remote origin that lost its last messages and grew again is detected; nothing is lost or copied twice."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from control.copiers import create, held
from control.remote_origins import RemoteSites, a_nats_server, remote_sites
from headwater.bus.connection import NoRespondersError
from headwater.errors import Error
from headwater.upstreams.durables import Durables
from waits import until

pytestmark = pytest.mark.usefixtures("impatient")

TROUBLE = (NoRespondersError, Error, TimeoutError, ConnectionError)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[RemoteSites]:
    async with remote_sites(a_nats_server, tmp_path) as running:
        yield running


async def answered(site: RemoteSites) -> None:
    """Return once the origin's server answers over all links again."""

    async def there() -> bool:
        try:
            subject = f"{site.api}.STREAM.INFO.O".encode()
            await site.door.asker.connection.request(subject, b"", 1)
            return "error" not in await site.origin.ask("STREAM.INFO.O")
        except TROUBLE:
            return False

    await until(there, "the origin answers")


def store_of(site: RemoteSites) -> Path:
    return site.server.directory / "jetstream"


async def keep(site: RemoteSites) -> Path:
    """Return a copy of the origin's store as it is now."""
    await site.server.stop()
    kept = site.server.directory / "kept"
    shutil.copytree(store_of(site), kept)
    await site.server.start()
    await answered(site)
    return kept


async def lose(site: RemoteSites, kept: Path, *, consumers: bool) -> None:
    """Have the origin be what it was, as a server is that lost what it had not synced."""
    await site.server.kill()
    if consumers:
        shutil.rmtree(store_of(site))
        shutil.copytree(kept, store_of(site))
    else:
        (messages,) = store_of(site).rglob("streams/O/msgs")
        shutil.rmtree(messages)
        shutil.copytree(kept / messages.relative_to(store_of(site)), messages)
    await site.server.start()
    await answered(site)


async def fare(site: RemoteSites, target: str) -> dict[str, Any]:
    info = await site.door.asker.ask(f"STREAM.INFO.{target}")
    found: dict[str, Any] = info["mirror"] if "mirror" in info else info["sources"][0]
    return found


async def copied(site: RemoteSites, target: str, count: int) -> None:
    async def reached() -> bool:
        await site.copier.tick()
        return (await site.door.domain.stream(target).reading.state()).messages >= count

    await until(reached, f"{target} holds {count}", lambda: str(site.door.upstreams.of(target)[0].error))


async def data(site: RemoteSites, target: str) -> list[bytes]:
    return [m.data for m in await held(site.door, target)]


async def until_shown(site: RemoteSites, target: str, words: str) -> None:
    async def shown() -> bool:
        await site.copier.tick()
        return words in (await fare(site, target)).get("error", {}).get("description", "")

    await until(shown, words, lambda: str(site.door.upstreams.of(target)[0].error))


EXPECTED = [b"%d" % number for number in (*range(10), *range(100, 108))]


@pytest.mark.parametrize("filters", [{}, {"filter_subject": "o.a"}], ids=["all", "filtered"])
async def test_a_source_copies_what_stands_under_reused_sequences(
    site: RemoteSites, filters: dict[str, str]
) -> None:
    await site.origin.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o.*"]})
    await create(site.door, name="S", sources=[site.source("O", **filters)])
    await site.pour("o.a", 4)
    await copied(site, "S", 4)
    kept = await keep(site)
    await site.pour("o.a", 6, start=4)
    await site.pour("o.b", 3, start=900)
    await copied(site, "S", 10 if filters else 13)
    await lose(site, kept, consumers=True)
    await site.pour("o.a", 8, start=100)
    if not filters:
        await site.pour("o.b", 3, start=900)
    await site.pour("o.b", 3, start=900)
    count = 18 if filters else 27
    await copied(site, "S", count)
    for _ in range(3):
        await site.copier.tick()
    found = await data(site, "S")
    assert len(found) == count
    assert sorted(each for each in found if not each.startswith(b"9") or len(each) < 3) == sorted(EXPECTED)
    assert (await fare(site, "S"))["headwater"]["restarts"]["count"] == 1


async def test_an_origin_that_grew_to_the_very_same_end_is_noticed(site: RemoteSites) -> None:
    await site.origin.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o"]})
    await create(site.door, name="S", sources=[site.source("O")])
    await site.pour("o", 4)
    kept = await keep(site)
    await site.pour("o", 6, start=4)
    await copied(site, "S", 10)
    await lose(site, kept, consumers=True)
    await site.pour("o", 6, start=100)
    await copied(site, "S", 16)
    assert sorted(await data(site, "S")) == sorted(EXPECTED[:16])


async def test_a_mirror_stops_with_an_error(site: RemoteSites) -> None:
    await site.origin.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o"]})
    await create(site.door, name="M", mirror=site.source("O"))
    await site.pour("o", 4)
    kept = await keep(site)
    await site.pour("o", 6, start=4)
    await copied(site, "M", 10)
    await lose(site, kept, consumers=True)
    await site.pour("o", 8, start=100)
    await until_shown(site, "M", "has lost its last messages")
    assert await data(site, "M") == [b"%d" % number for number in range(10)]


@pytest.mark.parametrize("consumers", [True, False], ids=["with its consumers", "but not its consumers"])
@pytest.mark.parametrize("retention", ["workqueue", "interest"])
async def test_a_queue_keeps_what_was_not_copied_until_it_is(
    site: RemoteSites, retention: str, consumers: bool
) -> None:
    await site.origin.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o"], "retention": retention})
    await create(site.door, name="S", sources=[site.source("O")])

    async def there() -> bool:
        await site.copier.tick()
        return bool(await site.consumers("O"))

    await until(there, "the origin has our consumer")
    await site.pour("o", 4)
    await copied(site, "S", 4)
    await site.emptied("O")
    kept = await keep(site)
    await site.pour("o", 6, start=4)
    await copied(site, "S", 10)
    await site.emptied("O")
    await lose(site, kept, consumers=consumers)
    await site.pour("o", 8, start=100)
    await copied(site, "S", 18)
    await site.emptied("O")
    assert sorted(await data(site, "S")) == sorted(EXPECTED)
    assert (await fare(site, "S"))["headwater"]["restarts"]["count"] == 1


async def test_acknowledgements_that_come_late_take_nothing_that_was_not_copied(
    site: RemoteSites, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.origin.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o"], "retention": "workqueue"})
    await create(site.door, name="S", sources=[site.source("O")])
    await site.pour("o", 4)
    await copied(site, "S", 4)
    await site.emptied("O")
    kept = await keep(site)
    with monkeypatch.context() as without:
        without.setattr(Durables, "_start_sending", lambda *_: None)
        await site.pour("o", 6, start=4)
        await copied(site, "S", 10)
        await lose(site, kept, consumers=True)
        await site.pour("o", 8, start=100)
    # Now the acknowledgements of 5 to 10 are sent, and other messages stand there.
    durables = site.door.upstreams._durables
    for upstream, debt in durables._owed_acks.items():
        assert set(debt.owed) == set(range(5, 11))
        durables._start_sending(upstream, debt)
        assert debt.sending is not None
        await debt.sending
    assert await site.left("O") == 8
    await copied(site, "S", 18)
    await site.emptied("O")
    assert sorted(await data(site, "S")) == sorted(EXPECTED)
