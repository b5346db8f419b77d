"""`headwater site`: up in the background and down again, its status, its files for hosts."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from headwater.cli.contexts import ContextFolder
from headwater.process.ending import EXIT_INTERRUPTED
from headwater.site.run_record import Running, RunRecord, lives, read_record, write_record
from jetstreams import Shell
from topologies import CINEMAS, cinemas, write_yaml


@pytest.fixture
def bare(tmp_path: Path) -> Shell:
    """Commands without a server."""
    return Shell("nats://127.0.0.1:1", tmp_path / "home")


def one_site(directory: Path) -> Path:
    """Return a file with one site that has one stream."""
    value = cinemas(streams={"hub": [{"name": "S", "subjects": ["s"]}]})
    return write_yaml(directory / "one.yaml", {**value, "sites": {"hub": value["sites"]["hub"]}})


def test_sites_come_up_in_the_background_and_go_down_again(bare: Shell, tmp_path: Path) -> None:
    file = str(one_site(tmp_path))
    try:
        up = bare("site", "up", file, "--detach", "--no-spark")
        assert up.code == 0, up.err
        assert "hub: stream S created" in up.err
        assert "running in the background" in up.out
        assert "S" in bare.ok("--context", "hub", "stream", "ls", "--names", NATS_URL="")
        again = bare("site", "up", file, "--detach", "--no-spark", "--no-contexts")
        assert again.code == 1
        assert "running already" in again.err
        found = json.loads(bare.ok("site", "status", file, "--json"))
        assert found["sites"][0]["domains"][0]["streams"][0]["name"] == "S"
        assert "1 stream" in bare.ok("site", "status", file)
        record = read_record(tmp_path / ".headwater" / "one")
        assert record is not None
        assert found["keeper"] == record.keeper.pid
        (engine,) = found["sites"][0]["engines"]
        assert (engine["state"], engine["epoch"], engine["restarts"]) == ("serving", 1, 0)
    finally:
        down = bare("site", "down", file)
    assert (down.code, down.out) == (0, "all processes have stopped\n"), down.err
    assert not any(lives(process) for process in (record.keeper, *record.children))
    assert ContextFolder(tmp_path / "home" / "nats").names() == []
    assert bare.ok("site", "down", file) == "nothing is running\n"


def test_a_process_that_is_not_ours_is_left_alone(bare: Shell, tmp_path: Path) -> None:
    file = one_site(tmp_path)
    where = tmp_path / ".headwater" / "one"
    write_record(where, RunRecord(Running("keeper", os.getpid(), "born before"), (str(file),), True))
    assert bare.ok("site", "down", str(file)) == "nothing is running\n"
    assert read_record(where) is None


def test_files_for_hosts_are_written_and_named(bare: Shell, tmp_path: Path) -> None:
    said = bare.ok("site", "config", str(CINEMAS / "cinemas.yaml"), str(tmp_path / "out"), "--at", "/etc/hw")
    assert len(said.splitlines()) == 12
    assert (tmp_path / "out" / "hub" / "hub.conf").exists()
    assert "/etc/hw/hub/engine-ACC.nk" in (tmp_path / "out" / "hub" / "engine.toml").read_text()


def test_values_of_a_chart_are_taken_with_fewer_nodes(bare: Shell, tmp_path: Path) -> None:
    releases = [str(CINEMAS / "values" / f"{name}.yaml") for name in ("hub", "spoke-1", "spoke-2")]
    common = [*releases, "--dir", str(tmp_path), "--json"]
    for nodes, servers in (("1", 3), ("3", 9)):
        ran = bare("site", "status", *common, "--nodes", nodes)
        found = json.loads(ran.out)
        assert (ran.code, found["is_up"]) == (1, False), "nothing of it runs"
        assert sum(len(site["servers"]) for site in found["sites"]) == servers


def test_a_file_that_makes_no_sense_is_bad_usage(bare: Shell, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("sites: {hub: {prot: 1}}\n")
    ran = bare("site", "up", str(tmp_path / "a.yaml"))
    assert ran.code == 2
    assert "a.yaml:1: sites.hub.prot: unknown key 'prot': did you mean port?" in ran.err


def test_a_context_that_is_not_ours_is_named_and_stays(bare: Shell, tmp_path: Path) -> None:
    bare.ok("context", "add", "hub", "--server", "nats://mine")
    bad = tmp_path / "bad.yaml"
    value = cinemas(streams={"hub": [{"name": "S", "subjects": ["$JS.API.>"]}]})
    write_yaml(bad, {**value, "sites": {"hub": value["sites"]["hub"]}})
    ran = bare("site", "up", str(bad), "--detach", "--no-spark")
    assert ran.code == 1
    assert "the context hub was not written by `site` and is kept" in ran.err
    assert "is refused" in ran.err
    assert ContextFolder(tmp_path / "home" / "nats").load("hub").url == "nats://mine"


def test_more_replicas_than_a_site_keeps_are_bad_usage_and_start_nothing(bare: Shell, tmp_path: Path) -> None:
    value = cinemas(streams={"hub": [{"name": "S", "subjects": ["s"], "num_replicas": 3}]})
    file = write_yaml(tmp_path / "a.yaml", {**value, "sites": {"hub": value["sites"]["hub"]}})
    ran = bare("site", "up", str(file), "--no-contexts")
    assert ran.code == 2
    assert "stream 'S' has num_replicas 3, and hub keeps one copy: set nodes: 3" in ran.err
    assert not (tmp_path / ".headwater").exists()


def test_the_status_is_shown_again_until_it_is_interrupted(
    bare: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", pause)
    ran = bare("site", "status", str(one_site(tmp_path)), "--watch")
    assert ran.code == EXIT_INTERRUPTED
    assert ran.out.count("not supervised") == 2
