"""Everything that a file describes runs, and nothing of it is left behind."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from headwater.errors import Error
from headwater.site.fleet import store_id
from headwater.site.run_record import Running, RunRecord, lives, read_record
from headwater.site.status import status_of
from identities import make_certificates, make_operator, new_key, write_seed
from topologies import ACCOUNTS, RunningSites, cinemas, operator_accounts, running_sites, write_yaml
from waits import until

PATIENCE_S = 60.0


def children(sites: RunningSites) -> dict[str, Running]:
    """Return the processes that are recorded, by name."""
    record = read_record(sites.layout.directory)
    assert record is not None
    return {process.name: process for process in record.children}


def until_gone(*processes: Running) -> None:
    """Return once none of the processes lives."""
    deadline = time.monotonic() + PATIENCE_S
    while any(lives(process) for process in processes):
        assert time.monotonic() < deadline, processes
        time.sleep(0.02)


async def test_a_fleet_says_what_it_does_and_records_what_runs(sites: RunningSites) -> None:
    # It is recorded as ready a moment before it says so.
    await until(lambda: "ready in " in sites.said)
    assert sorted(children(sites)) == [
        *(f"engine {name}" for name in ("hub", "spoke-1", "spoke-2")),
        *(f"nats-server {name}" for name in ("hub", "spoke-1", "spoke-2")),
    ]
    assert all(lives(process) for process in children(sites).values())
    for line in (
        "3 nats-servers started",
        "4 of 4 leaf links are up",
        "3 engines started",
        "hub: stream sales created",
        "spoke-1: stream tickets-1 created",
        "ready in ",
    ):
        assert line in sites.said


def test_a_fleet_ends_with_all_its_processes_and_begins_again_where_it_was(tmp_path: Path) -> None:
    value = cinemas(streams={"hub": [{"name": "S", "subjects": ["s"]}]})
    value["sites"] = {"hub": value["sites"]["hub"]}
    with running_sites(tmp_path, value) as sites:
        first = children(sites)
        assert sites.stop() == 0
        assert not any(lives(process) for process in first.values())
        assert read_record(sites.layout.directory) is None
        value["sites"]["hub"]["streams"][0]["max_msgs"] = 7
        write_yaml(sites.file, value)
        sites.start()
        assert "hub: stream S changed: max_msgs -1 → 7" in sites.said
        killed = children(sites)["nats-server hub"]
        os.kill(killed.pid, signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE_S
        while children(sites).get("nats-server hub", killed).pid == killed.pid:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_nothing_outlives_a_keeper_that_is_killed(tmp_path: Path) -> None:
    value = cinemas()
    with running_sites(tmp_path, {**value, "sites": {"hub": value["sites"]["hub"]}}) as sites:
        record = read_record(sites.layout.directory)
        assert isinstance(record, RunRecord)
        os.kill(record.keeper.pid, signal.SIGKILL)
        until_gone(*record.children)


def test_a_file_that_cannot_run_leaves_nothing_running(tmp_path: Path) -> None:
    value = cinemas(streams={"hub": [{"name": "S", "subjects": ["$JS.API.>"]}]})
    with pytest.raises(AssertionError, match=r"sites\.yaml:\d+: stream 'S' at hub is refused"):
        with running_sites(tmp_path, {**value, "sites": {"hub": value["sites"]["hub"]}}):
            pass
    assert read_record(tmp_path / "run") is None


def test_a_store_without_a_catalog_is_named(tmp_path: Path) -> None:
    with pytest.raises(Error, match="cannot be read"):
        store_id(tmp_path)


async def test_one_engine_serves_several_sites_behind_certificates_and_nkeys(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    write_seed(tmp_path / "acc.nk", new_key())
    streams = {"hub": [{"name": "H", "subjects": ["h"]}], "spoke-1": [{"name": "S", "subjects": ["s"]}]}
    value = cinemas(streams=streams)
    del value["sites"]["spoke-2"]
    value["tls"] = {"cert": made.server_cert, "key": made.server_key, "ca": made.ca, "verify": True}
    value["accounts"] = {
        **ACCOUNTS,
        "ACC": {"users": [{"user": "acc", "seed": str(tmp_path / "acc.nk")}]},
        "B": {"users": [{"user": "b", "password": "b"}]},
    }
    value["sites"]["hub"]["streams"].append({"account": "B", "config": {"name": "H", "subjects": ["h"]}})
    value["sites"]["spoke-1"]["engine"] = "hub"
    with running_sites(tmp_path, value) as sites:
        assert sorted(children(sites)) == ["engine hub", "nats-server hub", "nats-server spoke-1"]
        status = await status_of(sites.layout)
        assert all(link.is_up for link in status.links)
        found = {
            domain.domain: [stream.name for stream in domain.streams]
            for site in status.sites
            for domain in site.domains
        }
        assert found == {"hub": ["H"], "hub-b": ["H"], "spoke-1": ["S"], "spoke-1-b": []}
        for secret in ("BEGIN", (tmp_path / "acc.nk").read_text().strip()):
            assert secret not in sites.said + sites.log_of("hub/engine.log")


async def test_accounts_of_an_operator_run_with_credentials(tmp_path: Path) -> None:
    made = make_operator(tmp_path)
    value = cinemas(streams={"hub": [{"name": "H", "subjects": ["h"]}]})
    value["sites"] = {"hub": value["sites"]["hub"]}
    with running_sites(tmp_path, {**value, **operator_accounts(tmp_path, made)}) as sites:
        (site,) = (await status_of(sites.layout)).sites
        assert [stream.name for stream in site.domains[0].streams] == ["H"]
