"""Sites stop and start, links are cut and heal, on real processes; everything else continues."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from headwater.site.run_record import RunRecord, read_record
from headwater.site.status import SitesStatus, SiteStatus, status_of
from jetstreams import Ran, Shell
from topologies import RunningSites, cinemas, running_sites

STREAMS = {"hub": [{"name": "H", "subjects": ["h"]}], "spoke-1": [{"name": "S", "subjects": ["s"]}]}
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSites]:
    value = cinemas(streams=STREAMS)
    del value["sites"]["spoke-2"]
    with running_sites(tmp_path_factory.mktemp("pair"), value) as running:
        yield running


@pytest.fixture
def site(pair: RunningSites) -> Iterator[Shell]:
    """Commands; whatever a test leaves stopped or cut is undone."""
    shell = Shell("nats://127.0.0.1:1", pair.layout.directory / "home")
    try:
        yield shell
    finally:
        for command in ("heal", "start"):
            ran = run(shell, pair, command)
            assert ran.code == 0, ran.err


def run(shell: Shell, pair: RunningSites, command: str, name: str = "spoke-1") -> Ran:
    """Run a command about a site or a link."""
    return shell("site", command, str(pair.file), name, "--dir", str(pair.layout.directory))


def status(pair: RunningSites) -> tuple[SitesStatus, SiteStatus, SiteStatus]:
    """Return the status of the sites, and of each of them."""
    found = asyncio.run(status_of(pair.layout))
    hub, spoke = found.sites
    return found, hub, spoke


def eventually(holds: Callable[[], bool]) -> None:
    """Return once something holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def recorded(pair: RunningSites) -> RunRecord:
    """Return the record of the supervising process."""
    found = read_record(pair.layout.directory)
    assert found is not None
    return found


def test_a_site_stops_and_starts_while_the_others_continue(pair: RunningSites, site: Shell) -> None:
    before = {process.name: process.pid for process in recorded(pair).children}
    ran = run(site, pair, "stop")
    assert (ran.code, ran.out) == (0, "spoke-1 is stopped\n"), ran.err
    running = {process.name: process.pid for process in recorded(pair).children}
    assert running == {name: pid for name, pid in before.items() if name.endswith("hub")}
    found, hub, spoke = status(pair)
    assert (hub.is_up, spoke.is_up, spoke.is_stopped, found.is_up) == (True, False, True, False)
    assert [engine.state for engine in spoke.engines] == ["stopped"]
    assert [(stream.name, stream.is_known) for stream in spoke.domains[0].streams] == [("S", False)]
    shown = site("site", "status", str(pair.file), "--dir", str(pair.layout.directory))
    assert shown.code == 1
    assert "stopped" in shown.out
    assert "unknown" in shown.out
    ran = run(site, pair, "start")
    assert (ran.code, ran.out) == (0, "spoke-1 is running\n"), ran.err
    eventually(lambda: _engine_of(recorded(pair)) == "serving")
    found, _, spoke = status(pair)
    assert spoke.is_up
    assert [(stream.name, stream.is_known) for stream in spoke.domains[0].streams] == [("S", True)]
    assert [server.restarts for server in spoke.servers] == [0], "it was asked for"


def _engine_of(record: RunRecord) -> str:
    return next(engine.state for engine in record.engines if engine.engine == "spoke-1")


def test_a_link_is_cut_and_heals_while_both_ends_run(pair: RunningSites, site: Shell) -> None:
    before = {process.name: process.pid for process in recorded(pair).children}
    ran = run(site, pair, "cut")
    assert (ran.code, ran.out) == (0, "the link spoke-1:hub is cut\n"), ran.err
    found, hub, spoke = status(pair)
    assert [(link.is_up, link.is_cut) for link in found.links] == [(False, True), (False, True)]
    assert (hub.is_up, spoke.is_up, found.is_up) == (True, True, False)
    assert "cut" in site("site", "status", str(pair.file), "--dir", str(pair.layout.directory)).out
    ran = run(site, pair, "heal")
    assert (ran.code, ran.out) == (0, "the link spoke-1:hub is no longer cut\n"), ran.err
    found, _, _ = status(pair)
    assert [(link.is_up, link.is_cut) for link in found.links] == [(True, False), (True, False)]
    assert {process.name: process.pid for process in recorded(pair).children} == before


def test_a_cut_link_stays_cut_when_its_server_is_killed(pair: RunningSites, site: Shell) -> None:
    assert run(site, pair, "cut").code == 0
    server = next(p for p in recorded(pair).children if p.name == "nats-server spoke-1")
    os.kill(server.pid, signal.SIGKILL)
    eventually(lambda: recorded(pair).restarts["nats-server spoke-1"] > server.restarts)
    eventually(lambda: status(pair)[2].is_up)
    found, _, spoke = status(pair)
    assert [link.is_cut for link in found.links] == [True, True]
    assert not any(link.is_up for link in found.links)
    assert [server.restarts for server in spoke.servers] == [server.restarts + 1]


def test_a_site_that_cannot_start_stays_stopped_with_the_reason(pair: RunningSites, site: Shell) -> None:
    assert run(site, pair, "stop").code == 0
    node = next(iter(pair.topology.site("spoke-1").nodes))
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((node.host, node.monitor_port))
        taken.listen()
        ran = run(site, pair, "start")
        assert ran.code == 1
        assert "nats-server spoke-1 ended with status 1" in ran.err
        _, hub, spoke = status(pair)
        assert (hub.is_up, spoke.is_stopped) == (True, True)
    assert run(site, pair, "start").code == 0
    assert recorded(pair).problem == ""


def test_a_link_of_a_stopped_site_can_be_cut_before_it_starts(pair: RunningSites, site: Shell) -> None:
    assert run(site, pair, "stop").code == 0
    assert run(site, pair, "cut").code == 0
    assert run(site, pair, "start").code == 0
    found, _, _ = status(pair)
    assert not any(link.is_up for link in found.links)
    assert run(site, pair, "stop", "hub").code == 0
    assert run(site, pair, "heal").code == 0, "the other end is stopped: nothing to wait for"
    assert run(site, pair, "start", "hub").code == 0
    eventually(lambda: status(pair)[0].is_up)
