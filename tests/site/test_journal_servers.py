"""The servers of a journal: the leader, the followers with their lag, and the error when none answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.site.journal_servers import (
    JournalServer,
    JournalStatus,
    journal_status,
    servers_in,
    without_leader,
)
from headwater.site.layout import SiteFolders
from topologies import cinemas, topology_of

INFO = {
    "cluster": {
        "leader": "n1",
        "replicas": [
            {"name": "n0", "current": True, "active": 5},
            {"name": "n2", "current": False, "offline": True, "lag": 7},
        ],
    }
}


def test_the_servers_of_a_stream_have_roles_and_a_lag() -> None:
    found = servers_in(INFO)
    assert found == [
        JournalServer("n1", "leader", True, True),
        JournalServer("n0", "follower", True, True),
        JournalServer("n2", "follower", False, False, 7),
    ]
    assert not JournalStatus("nats://x/y", tuple(found)).is_up
    assert JournalStatus("nats://x/y", tuple(found[:2])).is_up
    assert servers_in({}) == []


async def test_servers_that_do_not_run_have_no_leader_and_are_a_problem(tmp_path: Path) -> None:
    layout = SiteFolders(topology_of(tmp_path, cinemas(3)), tmp_path / "run")
    hub = layout.topology.site("hub")
    never = await journal_status(layout, hub)
    assert never is not None
    assert "was never started here" in never.problem
    assert not layout.journal_password(hub).exists(), "looking changes nothing"
    layout.write()
    assert await without_leader(layout.topology) == ["hub", "spoke-1", "spoke-2"]
    away = await journal_status(layout, hub)
    assert away is not None
    assert not away.is_up
    assert "Cannot connect" in away.problem
    assert layout.journal_password(hub).read_text().strip() not in f"{away}"


@pytest.mark.parametrize("journal", ["s3://lake/journal", "file:///srv/lake"])
async def test_a_bucket_says_nothing_about_its_copies(tmp_path: Path, journal: str) -> None:
    value = cinemas()
    value["sites"]["hub"]["journal"] = journal
    value["sites"]["spoke-1"]["engine"] = "hub"
    layout = SiteFolders(topology_of(tmp_path, value), tmp_path / "run")
    found = [await journal_status(layout, site) for site in layout.topology.sites]
    assert found == [JournalStatus(journal), None, None]
    assert await without_leader(layout.topology) == []
