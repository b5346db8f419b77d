"""Links are up or silent, and since when is remembered."""

from __future__ import annotations

from pathlib import Path

from headwater.site.links import (
    AccountLink,
    LinkWatch,
    connected_accounts,
    links_of,
    look,
    monitored,
    read_links,
)
from topologies import RunningSites, cinemas, topology_of


async def test_every_link_of_running_sites_is_up(sites: RunningSites) -> None:
    links = await look(sites.topology, now=7.0)
    assert [(link.site, link.to, link.account, link.is_up, link.since) for link in links] == [
        ("spoke-1", "hub", "ACC", True, 7.0),
        ("spoke-1", "hub", "SYS", True, 7.0),
        ("spoke-2", "hub", "ACC", True, 7.0),
        ("spoke-2", "hub", "SYS", True, 7.0),
    ]
    assert await connected_accounts(sites.topology.site("hub")) == {}
    page = await monitored(next(iter(sites.topology.site("hub").nodes)), "varz")
    assert page is not None
    assert page["server_name"] == "hub"


async def test_a_link_keeps_since_when_until_it_changes(sites: RunningSites, tmp_path: Path) -> None:
    up = await look(sites.topology, now=1.0)
    assert await look(sites.topology, up, now=2.0) == up
    nobody = topology_of(tmp_path, cinemas())
    fallen = await look(nobody, up, now=3.0)
    assert [(link.is_up, link.since) for link in fallen] == [(False, 3.0)] * 4
    assert await look(nobody, fallen, now=4.0) == fallen


async def test_a_watch_writes_changes_down_for_others(tmp_path: Path) -> None:
    topology = topology_of(tmp_path, cinemas())
    assert len(links_of(topology)) == 4
    assert read_links(tmp_path) == []
    seen = await LinkWatch(topology, tmp_path).look()
    assert read_links(tmp_path) == seen
    assert isinstance(seen[0], AccountLink)
    again = LinkWatch(topology, tmp_path)
    assert await again.look() == seen
