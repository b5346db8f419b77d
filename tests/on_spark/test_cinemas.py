"""A hub and two spokes, as a guide has them: its commands, its reports, and its links cut and healed.

`TEST_ROUNDS` says how often links are cut and healed at random; `make test-rounds` does it oftener than
`make test`. `make test-slow` has the kernel slow the links down, in a network of its own, and runs three
nodes at each site.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import nats.errors
import pytest

from headwater.model.upstream import hash8
from headwater.site.status import status_of
from on_spark.cinemas import (
    PUBLISHED,
    SPOKES,
    Cinemas,
    guide_files,
    literal_files,
    netem,
    opened_cinemas,
)
from rounds import choose_seed, rounds

ROUNDS = rounds(3)
SEED = choose_seed()
TICKETS = ("tickets-1", "tickets-2")
SLOWED = (
    "test_the_guides_commands_make_its_streams_and_its_reports",
    "test_links_that_are_slow_and_lossy_bring_everything_in_order",
)


@pytest.fixture(scope="module")
def cinemas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cinemas]:
    with opened_cinemas(tmp_path_factory.mktemp("cinemas")) as running:
        yield running


def rows(report: str) -> list[list[str]]:
    """Return the cells of a report's lines without the time since the origin was last active."""
    found = []
    for line in report.splitlines():
        if "│" in line:
            cells = [cell.strip() for cell in line.strip("│").split("│")]
            found.append(["<active>" if re.fullmatch(r"\d[\d.]*(ms|s)", cell) else cell for cell in cells])
    return found


async def make_streams(cinemas: Cinemas, files: Callable[[str], list[Path]] = guide_files) -> None:
    """Make the guide's streams by its own commands."""
    for domain in ("spoke-1", "spoke-2", "hub"):
        for file in files(domain):
            said = await cinemas.nats(
                "--context=hub", "str", "add", "--config", str(file), f"--js-domain={domain}"
            )
            assert "was created" in said

    async def held() -> bool:
        infos = [await cinemas.info(site, stream) for stream, (site, _) in PUBLISHED.items()]
        return all(info["state"]["consumer_count"] for info in infos)

    # An origin that keeps messages for those who want them must know that somebody does.
    await cinemas.until(held, "every origin keeps messages for its copies")


async def test_the_guides_commands_make_its_streams_and_its_reports(cinemas: Cinemas) -> None:
    await make_streams(cinemas)
    head = ["Stream", "Storage", "Placement", "Consumers", "Messages", "Bytes", "Lost", "Deleted"]
    copied = [
        "Stream",
        "Kind",
        "API Prefix",
        "Source Stream",
        "Filters and Transforms",
        "Active",
        "Lag",
        "Error",
    ]
    empty = ["File", "", "0", "0", "0 B", "0", "0"]
    wanted = ["File", "", "1", "0", "0 B", "0", "0"]  # by the copy, for which messages are kept
    first, second, hub = [rows(await cinemas.report(domain)) for domain in ("spoke-1", "spoke-2", "hub")]
    assert first[1][:8] == second[1][:8] == hub[1][:8] == head
    assert sorted(row[:8] for row in first[2:4]) == [["cinema-a-mirror", *empty], ["tickets-1", *wanted]]
    assert first[4:] == [
        ["Replication Report"],
        copied,
        ["cinema-a-mirror", "Mirror", "$JS.hub.API", "cinema-a", "", "<active>", "0", ""],
    ]
    assert [row[:8] for row in second[2:]] == [["tickets-2", *wanted]]
    assert [row[-1] for row in (first[2], second[2], hub[2])] == ["spoke-1*", "spoke-2*", "hub*"]  # who leads
    assert sorted(row[:8] for row in hub[2:4]) == [["cinema-a", *wanted], ["sales", *empty]]
    assert hub[4:] == [
        ["Replication Report"],
        copied,
        ["sales", "Source", "$JS.spoke-1.API", "tickets-1", "", "<active>", "0", ""],
        ["sales", "Source", "$JS.spoke-2.API", "tickets-2", "", "<active>", "0", ""],
    ]


async def test_tickets_stay_where_they_were_sold_until_the_headquarters_has_them(cinemas: Cinemas) -> None:
    link = cinemas.links["spoke-1"]
    cinemas.room.cut(link)
    for stream in PUBLISHED:
        await cinemas.publish(stream, 10)
    await cinemas.holds("hub", "sales", 10)
    assert (await cinemas.info("spoke-1", "tickets-1"))["state"]["messages"] == 10
    assert (await cinemas.info("hub", "cinema-a"))["state"]["messages"] == 10

    async def said_so() -> bool:
        status = await status_of(cinemas.sites.layout)
        silent = {link.site for link in status.links if not link.is_up}
        sales = next(s for s in status.sites[0].domains[0].streams if s.name == "sales")
        stuck = {up.origin for up in sales.upstreams if up.silent_since > 0 and up.error}
        return silent == {"spoke-1"} and stuck == {"tickets-1"}

    await cinemas.until(said_so, "the status says which site is silent since when")
    stuck, heard = [next(row for row in rows(await cinemas.report("hub")) if name in row) for name in TICKETS]
    assert "$JS.spoke-1.API" in stuck[-1]
    assert heard[-1] == ""
    for origin, is_silent in (("tickets-1", True), ("tickets-2", False)):
        (shown,) = [row for row in rows(await cinemas.status()) if row[4:5] == [origin]]
        assert bool(re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d \(.+\)", shown[6])) is is_silent
    silent = [row[:4] for row in rows(await cinemas.status()) if row[3:4] == ["silent"]]
    assert silent == [["spoke-1", "hub", account, "silent"] for account in ("ACC", "SYS")]
    cinemas.room.restore(link)
    await cinemas.audit()
    await cinemas.releases_all()


async def test_a_headquarters_that_has_moved_is_found_at_its_other_address(cinemas: Cinemas) -> None:
    for link in cinemas.links.values():
        cinemas.room.cut(link)
    cinemas.room.restore(cinemas.other_address)
    for stream in PUBLISHED:
        await cinemas.publish(stream, 5)
    await cinemas.audit()
    for link in cinemas.links.values():
        cinemas.room.restore(link)
    cinemas.room.cut(cinemas.other_address)
    for stream in PUBLISHED:
        await cinemas.publish(stream, 5)
    await cinemas.audit()
    await cinemas.releases_all()


async def test_links_that_are_cut_and_healed_at_random_lose_nothing_and_double_nothing(
    cinemas: Cinemas,
) -> None:
    chance = random.Random(SEED)
    going = True

    async def sell(stream: str) -> None:
        site, subject = PUBLISHED[stream]
        async with cinemas.client(site) as client:
            while going:
                await cinemas.publish_one(client, stream, subject)

    before = cinemas.published.copy()
    selling = [asyncio.create_task(sell(stream)) for stream in PUBLISHED]
    try:
        for number in range(ROUNDS):
            for name in chance.sample(SPOKES, chance.choice((1, 2))):
                link = cinemas.links[name]
                if chance.random() < 0.3:
                    cinemas.room.freeze(link)
                    await asyncio.sleep(chance.random())
                    cinemas.room.thaw(link)
                else:
                    cinemas.room.cut(link)
                    await asyncio.sleep(chance.random())
                    # It comes back from another address, as a site does whose provider gave it a new one.
                    link.source = f"127.0.0.{2 + number % 200}"
                    cinemas.room.restore(link)
            await asyncio.sleep(2 * chance.random())
    finally:
        going = False
        await asyncio.gather(*selling)
    assert all(cinemas.published[stream] > before[stream] for stream in PUBLISHED)
    await cinemas.audit()
    await cinemas.releases_all()


async def test_links_that_are_slow_and_lossy_bring_everything_in_order(cinemas: Cinemas) -> None:
    with cinemas.slow_links(random.Random(SEED)):
        for more in (40, *[10] * 20):
            for stream in PUBLISHED:
                await cinemas.publish(stream, more, size=1024)
            await cinemas.audit()
            if cinemas.lost:
                break
    assert cinemas.lost, "so much was sent that a hundredth of it must have been lost"
    await cinemas.releases_all()


async def test_a_cinema_whose_link_has_its_own_user_cannot_write_the_streams_of_others(
    cinemas: Cinemas,
) -> None:
    async with cinemas.client("spoke-2") as client:
        with pytest.raises(nats.errors.NoRespondersError):
            await client.request("tickets-1.sold", b"forged", timeout=60)
        for request in ("STREAM.DELETE.tickets-1", "STREAM.PURGE.tickets-1", "STREAM.INFO.tickets-1"):
            with pytest.raises(nats.errors.NoRespondersError):
                await client.request(f"$JS.spoke-1.API.{request}", b"", timeout=60)
        # An ack can take a message out of a stream that keeps it only until then.
        for names in (f"spoke-1.{hash8('ACC')}.tickets-1", f"hub.{hash8('ACC')}.cinema-a", "tickets-1"):
            with pytest.raises(nats.errors.NoRespondersError):
                await client.request(f"$JS.ACK.{names}.c.1.1.1.1.0", b"+TERM", timeout=60)
        assert (await client.request("$JS.API.STREAM.INFO.tickets-2", b"", timeout=60)).data
    async with cinemas.client("hub") as client:  # the headquarters may
        assert (
            b"error" not in (await client.request("$JS.spoke-1.API.STREAM.INFO.tickets-1", timeout=60)).data
        )
    await cinemas.audit()


@pytest.mark.skipif(not os.environ.get("TEST_SLOW"), reason="takes a Spark of its own: make test-slow")
def test_links_that_the_kernel_slows_down_bring_everything_in_order() -> None:
    alone = ["unshare", "--map-root-user", "--net"]
    tried = subprocess.run(
        [*alone, "sh", "-c", " && ".join(["ip link set lo up", *netem(1)])],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        pytest.skip(f"this kernel slows nothing down for us: {tried.stderr.strip()}")
    names = [f"{__file__}::{name}" for name in SLOWED]
    command = f"ip link set lo up && exec {sys.executable} -m pytest -q {' '.join(names)}"
    ran = subprocess.run(
        [*alone, "sh", "-c", command],
        env={**os.environ, "TEST_NETEM": "1", "TEST_SLOW": ""},
        cwd=Path(__file__).parent.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(SLOWED)} passed" in ran.stdout


@pytest.mark.skipif(not os.environ.get("TEST_SLOW"), reason="nine servers and a Spark more: make test-slow")
async def test_three_nodes_at_each_site_and_one_of_each_killed(tmp_path: Path) -> None:
    files = partial(literal_files, tmp_path)
    opening = opened_cinemas(tmp_path / "sites", 3, files)
    wide = await asyncio.to_thread(opening.__enter__)
    try:
        await make_streams(wide, files)
        # The guide's target keeps a message only for consumers.
        await wide.nats(
            *("--context=hub", "--js-domain=hub", "consumer", "add", "sales", "audit", "--pull", "--defaults")
        )
        for site, stream in (("hub", "sales"), ("hub", "cinema-a"), ("spoke-2", "tickets-2")):
            cluster = (await wide.info(site, stream))["cluster"]
            assert len(cluster["replicas"]) == 2, "three servers keep it"
        for stream in PUBLISHED:
            await wide.publish(stream, 20)
        await wide.audit()
        for site in ("hub", *SPOKES):
            wide.kill(f"nats-server {site}-1")
            for stream in PUBLISHED:
                await wide.publish(stream, 20)
        await wide.audit()
        for site in ("hub", *SPOKES):
            wide.lose_engine(site)
            for stream in PUBLISHED:
                await wide.publish(stream, 20)
        await wide.audit()
        await wide.releases_all()
    finally:
        await asyncio.to_thread(opening.__exit__, None, None, None)
