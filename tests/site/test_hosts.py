"""Files for real hosts: configuration that nats-server accepts, settings that an engine accepts, units."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import Error
from headwater.loaded_settings import load
from headwater.site.copies import on_hosts
from headwater.site.hosts import check, sharing_a_host, unreachable, write_hosts
from headwater.site.site_file import read_topology
from topologies import CINEMAS, cinemas, topology_of


def test_every_host_gets_its_configuration_its_settings_and_units(tmp_path: Path) -> None:
    topology = topology_of(tmp_path, cinemas(3))
    written = write_hosts(topology, tmp_path / "out", Path("/etc/headwater"), Path("/data"))
    names = sorted(str(path.relative_to(tmp_path / "out")) for path in written)
    assert len(names) == 3 * (3 + 1 + 3 + 1)
    assert "spoke-1/spoke-1-2.conf" in names
    settings = load(config=tmp_path / "out" / "hub" / "engine.toml").settings
    assert (settings.store, settings.replicator) == (Path("/data/hub"), "own")
    unit = (tmp_path / "out" / "hub" / "headwater-hub.service").read_text()
    assert "ExecStart=headwater serve --config /etc/headwater/hub/engine.toml" in unit
    assert "After=network-online.target nats-server-hub-0.service" in unit
    assert 'listen: "0.0.0.0:' in (tmp_path / "out" / "hub" / "hub-0.conf").read_text()


def test_links_of_a_chart_go_to_its_own_addresses_on_real_hosts(tmp_path: Path) -> None:
    topology = read_topology([CINEMAS / "values" / f"{name}.yaml" for name in ("hub", "spoke-1", "spoke-2")])
    assert unreachable(topology) == []
    write_hosts(topology, tmp_path, tmp_path, tmp_path)
    text = (tmp_path / "spoke-1" / "spoke-1-0.conf").read_text()
    assert '"nats://acc:acc@hub.example.com:30742"' in text
    assert unreachable(topology_of(tmp_path, cinemas())) == ["hub"]


def test_configuration_that_nats_server_refuses_is_refused_in_its_words(tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text("lisen: 1\n")
    with pytest.raises(Error, match="unknown field"):
        check(tmp_path / "a.conf")


def test_engines_of_several_hosts_share_a_journal_and_a_bucket(tmp_path: Path) -> None:
    value = cinemas(3)
    value["sites"]["hub"] |= {"engines": 2, "tables": "s3://lake/hub", "host": "hub.example.com"}
    topology = on_hosts(topology_of(tmp_path, value))
    assert sharing_a_host(topology) == ["hub"]
    value["sites"]["hub"]["host"] = ["a.example.com", "b.example.com", "c.example.com"]
    topology = on_hosts(topology_of(tmp_path, value))
    assert sharing_a_host(topology) == []
    write_hosts(topology, tmp_path / "out", Path("/etc/headwater"), Path("/data"))
    settings = load(config=tmp_path / "out" / "hub" / "engine.toml").settings
    assert (settings.standby, settings.tables) == (True, "s3://lake/hub")
    port = topology.site("hub").port
    assert f"@a.example.com:{port},b.example.com:{port},c.example.com:{port}/hub" in (settings.journal or "")
    routes = (tmp_path / "out" / "hub" / "hub-0.conf").read_text()
    assert f'"nats://b.example.com:{topology.site("hub").route_port}"' in routes
    assert not (tmp_path / "out" / "hub" / "engine-2.toml").exists(), "each host gets the same files"
    assert "Put it on 2 hosts" in (tmp_path / "out" / "hub" / "headwater-hub.service").read_text()
    assert '"store_dir": "/data/hub/hub-1"' in (tmp_path / "out" / "hub" / "hub-1.conf").read_text()
    assert "jetstream" not in (tmp_path / "out" / "spoke-1" / "spoke-1-1.conf").read_text()
