"""The files of a topology: settings that an engine accepts, keys that stay."""

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
    assert (settings.account, settings.domain, settings.max_replicas) == ("ACC", "spoke-1", 1)
    assert (settings.standby, settings.replication_secret) == (False, None)
    hosts = ",".join(f"127.0.0.1:{node.port}" for node in site.nodes)
    password = layout.journal_password(site).read_text().strip()
    assert settings.journal == f"nats://journal:{password}@{hosts}/spoke-1", (
        "its own servers keep the journal"
    )
    assert settings.tables == f"file://{tmp_path / 'out' / 'spoke-1' / 'tables'}"
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


def test_engines_with_a_journal_have_directories_of_their_own_and_share_a_secret(tmp_path: Path) -> None:
    value = cinemas()
    value["sites"]["hub"] |= {
        "engines": 3,
        "journal": "s3://lake/journal",
        "tables": "s3://lake/tables",
        "tables_endpoint": "http://s3.example.com",
        "tables_region": "eu-1",
        "max_replicas": 3,
    }
    layout = SiteFolders(topology_of(tmp_path, value), tmp_path / "out")
    layout.write()
    found = [load(config=layout.engine_settings("hub", number)).settings for number in (1, 2, 3)]
    folder = tmp_path / "out" / "hub"
    assert [each.store for each in found] == [folder / "store", folder / "store-2", folder / "store-3"]
    assert {each.replication_secret for each in found} == {
        (folder / "replication.secret").read_text().strip()
    }
    assert all(each.standby for each in found)
    assert {(each.journal, each.tables, each.max_replicas) for each in found} == {
        ("s3://lake/journal", "s3://lake/tables", 3)
    }
    assert (found[0].tables_endpoint, found[0].tables_region) == ("http://s3.example.com", "eu-1")


def test_engines_without_a_journal_share_a_directory(tmp_path: Path) -> None:
    value = cinemas()
    value["sites"]["hub"] |= {"engines": 2}
    layout = SiteFolders(topology_of(tmp_path, value), tmp_path / "out")
    layout.write()
    found = [load(config=layout.engine_settings("hub", number)).settings for number in (1, 2)]
    assert {(each.store, each.standby, each.journal, each.tables) for each in found} == {
        (tmp_path / "out" / "hub" / "store", True, None, None)
    }


def test_a_journal_of_servers_with_certificates_is_reached_with_them(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    tls = {"cert": made.server_cert, "key": made.server_key, "ca": made.ca, "verify": True}
    value = {**cinemas(3), "tls": tls}
    value["sites"]["spoke-1"]["engine"] = "hub"
    layout = SiteFolders(topology_of(tmp_path, value), tmp_path / "out")
    layout.write()
    settings = load(config=layout.engine_settings("hub")).settings
    assert (settings.journal or "").startswith("tls://journal:")
    assert (str(settings.tls_ca), str(settings.tls_cert)) == (made.ca, made.server_cert), "besides its seats"
    assert "jetstream" not in (tmp_path / "out" / "spoke-1" / "spoke-1-0.conf").read_text()
