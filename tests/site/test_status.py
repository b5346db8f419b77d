"""The status shows what runs, what does not, and which origin is silent since when."""

from __future__ import annotations

import os
from pathlib import Path

from headwater.model.times import SECOND
from headwater.site.layout import SiteFolders
from headwater.site.run_record import Running, RunRecord, running
from headwater.site.status import keeper_of, silent_since, status_of
from topologies import RunningSites, cinemas, topology_of


async def test_the_status_of_running_sites_names_servers_engines_streams_and_upstreams(
    sites: RunningSites,
) -> None:
    status = await status_of(sites.layout)
    assert status.keeper != 0
    assert all(link.is_up for link in status.links)
    hub, first, second = status.sites
    assert [server.is_up for site in status.sites for server in site.servers] == [True] * 3
    assert [domain.is_up for site in status.sites for domain in site.domains] == [True] * 3
    (sales,) = hub.domains[0].streams
    assert [(up.kind, up.origin, up.api, up.lag) for up in sales.upstreams] == [
        ("Source", "tickets-1", "$JS.spoke-1.API", 0)
    ]
    assert [stream.name for stream in first.domains[0].streams] == ["tickets-1"]
    assert second.domains[0].streams == ()


async def test_the_status_of_nothing_says_so(tmp_path: Path) -> None:
    layout = SiteFolders(topology_of(tmp_path, cinemas()), tmp_path / "run")
    layout.write()
    status = await status_of(layout)
    assert status.keeper == 0
    assert not any(link.is_up for link in status.links)
    assert not any(server.is_up for site in status.sites for server in site.servers)
    assert all(domain.problem for site in status.sites for domain in site.domains)


def test_silence_begins_when_an_origin_was_last_heard_of() -> None:
    assert silent_since(-1, 100.0) == -1.0
    assert silent_since(1 * SECOND, 100.0) == 0.0
    assert silent_since(60 * SECOND, 100.0) == 40.0


def test_a_keeper_that_is_gone_keeps_nothing() -> None:
    assert keeper_of(None) == 0
    assert keeper_of(RunRecord(Running("k", os.getpid(), "another"), ())) == 0
    assert keeper_of(RunRecord(running("k", os.getpid()), ())) == os.getpid()
