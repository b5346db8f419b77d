"""The files of a topology: settings that an engine takes, keys that stay."""

from __future__ import annotations

from pathlib import Path

import nkeys

from headwater.loaded_settings import load
from headwater.site.layout import SiteFolders
from identities import make_certificates
from topologies import ACCOUNTS, cinemas, topology_of


def test_an_engine_s_settings_name_its_site_and_its_user(tmp_path: Path) -> None:
    topology = topology_of(tmp_path, cinemas(3))
    layout = SiteFolders(topology, tmp_path / "out")
    layout.write()
    settings = load(config=layout.engine_settings("spoke-1")).settings
    site = topology.site("spoke-1")
    assert (settings.account, settings.domain, settings.max_replicas) == ("ACC", "spoke-1", 3)
    assert (settings.server_name, settings.cluster) == ("spoke-1", "spoke-1")
    assert settings.ack_format == "v2", "sites may have streams and consumers of equal names"
    assert settings.nats_url == ",".join(site.client_urls())
    assert settings.leaf_url == ",".join(site.leaf_urls())
    assert (settings.store, settings.replicator) == (tmp_path / "out" / "spoke-1" / "store", "submitted")
    assert settings.nkey == layout.seed(site, site.business[0])


def test_keys_are_made_once_and_only_their_public_half_is_in_a_servers_configuration(tmp_path: Path) -> None:
    layout = SiteFolders(topology_of(tmp_path, cinemas()), tmp_path / "out")
    layout.write()
    hub = layout.topology.site("hub")
    seed = layout.seed(hub, hub.business[0]).read_bytes().strip()
    first = layout.write()
    assert layout.seed(hub, hub.business[0]).read_bytes().strip() == seed
    config = layout.server_config(hub, next(iter(hub.nodes))).read_text()
    assert nkeys.from_seed(bytearray(seed)).public_key.decode() in config
    assert seed.decode() not in config
    assert all(path.stat().st_mode & 0o77 == 0 for path in first)


def test_one_engine_can_serve_several_sites_and_accounts(tmp_path: Path) -> None:
    value = cinemas()
    value["accounts"] = {**ACCOUNTS, "B": {"users": [{"user": "b", "password": "b"}]}}
    value["sites"]["spoke-1"]["engine"] = "hub"
    layout = SiteFolders(topology_of(tmp_path, value), tmp_path / "out")
    layout.write()
    settings = load(config=layout.engine_settings("hub")).settings
    assert [(seat.account, seat.domain, seat.streams_folder) for seat in settings.seats] == [
        ("ACC", "hub", "hub-ACC"),
        ("B", "hub-b", "hub-B"),
        ("ACC", "spoke-1", "spoke-1-ACC"),
        ("B", "spoke-1-b", "spoke-1-B"),
    ]
    assert not layout.engine_settings("spoke-1").exists()


def test_an_engine_trusts_and_shows_what_its_site_does(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    tls = {"cert": made.server_cert, "key": made.server_key, "ca": made.ca, "verify": True}
    layout = SiteFolders(topology_of(tmp_path, {**cinemas(), "tls": tls}), tmp_path / "out")
    layout.write()
    settings = load(config=layout.engine_settings("hub")).settings
    assert (str(settings.tls_ca), str(settings.tls_cert)) == (made.ca, made.server_cert)
    assert (settings.nats_url or "").startswith("tls://")


def test_files_for_another_host_name_the_paths_there(tmp_path: Path) -> None:
    topology = topology_of(tmp_path, cinemas())
    layout = SiteFolders(topology, tmp_path, replicator="own", at=Path("/etc/hw"), stores=Path("/var/hw"))
    layout.write()
    text = layout.engine_settings("hub").read_text()
    assert 'store = "/var/hw/hub"' in text
    assert 'nkey = "/etc/hw/hub/engine-ACC.nk"' in text
