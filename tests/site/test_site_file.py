"""A site file is read strictly: unknown keys, wrong references and duplicates are refused."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import SettingsError
from headwater.site.site_file import read_topology, resized
from identities import make_certificates
from topologies import ACCOUNTS, CINEMAS, topology_of, write_yaml

SITES: dict[str, Any] = {
    "accounts": ACCOUNTS,
    "sites": {"hub": {}, "edge": {"remotes": [{"site": "hub", "account": "ACC", "user": "acc"}]}},
}


def changed(change: Any) -> dict[str, Any]:
    """Return the sites with a change made to them."""
    value = copy.deepcopy(SITES)
    change(value)
    return value


def test_the_example_is_a_site_file() -> None:
    topology = read_topology([CINEMAS / "cinemas.yaml"])
    assert [(site.name, site.domain, site.port) for site in topology.sites] == [
        ("hub", "hub", 4222),
        ("spoke-1", "spoke-1", 4322),
        ("spoke-2", "spoke-2", 4422),
    ]
    assert [stream.name for stream in topology.site("spoke-1").streams] == ["tickets-1", "cinema-a-mirror"]
    assert [remote.site for remote in topology.site("spoke-2").remotes] == ["hub", "hub"]
    assert topology.site("hub").cluster == "headquarter"


def test_a_site_has_what_the_file_says_and_else_what_is_usual(tmp_path: Path) -> None:
    said = {"domain": "d", "host": "hub.example.com", "nodes": 3, "port": 5000, "engine": "edge"}
    topology = topology_of(tmp_path, changed(lambda v: v["sites"]["hub"].update(said)))
    hub, edge = topology.sites
    assert (hub.domain, hub.host, hub.size, hub.port, hub.engine) == ("d", "hub.example.com", 3, 5000, "edge")
    assert (edge.domain, edge.host, edge.size, edge.engine) == ("edge", "127.0.0.1", 1, "edge")
    assert {name: len(sites) for name, sites in topology.engines.items()} == {"edge": 2}


def test_sites_can_have_accounts_of_their_own(tmp_path: Path) -> None:
    own = {"ACC": {"users": [{"user": "acc", "password": "x"}]}, "B": {}}
    topology = topology_of(tmp_path, changed(lambda v: v["sites"]["hub"].update(accounts=own)))
    assert [account.name for account in topology.site("hub").accounts] == ["ACC", "B"]
    assert [account.name for account in topology.site("edge").accounts] == ["SYS", "ACC"]


def test_certificates_are_for_all_sites_or_for_one(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    tls = {"cert": made.server_cert, "key": made.server_key, "ca": made.ca}
    topology = topology_of(tmp_path, {**SITES, "tls": tls})
    assert all(site.tls is not None and site.tls.cert == Path(made.server_cert) for site in topology.sites)
    one = topology_of(tmp_path, changed(lambda v: v["sites"]["hub"].update(tls={**tls, "verify": True})))
    assert [site.tls is not None and site.tls.verify for site in one.sites] == [True, False]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda v: v.update(site={}), "unknown key 'site': did you mean sites?"),
        (lambda v: v.pop("sites"), "missing sites"),
        (lambda v: v["sites"]["hub"].update(domian="x"), "did you mean domain?"),
        (lambda v: v["sites"]["hub"].update(domain="a.b"), "cannot be the name of a domain"),
        (lambda v: v["sites"].update({"a b": {}}), "cannot be the name of a site"),
        (lambda v: v["sites"]["hub"].update(domain="edge"), "the domain 'edge' is used by hub already"),
        (lambda v: v["sites"]["hub"].update(nodes=2), "has 2 nodes: a site has one or three"),
        (lambda v: v["sites"]["hub"].update(port=4322), "the port 4322 of 127.0.0.1 is used by hub already"),
        (lambda v: v["sites"]["hub"].update(port=0), "between 1 and 65535"),
        (lambda v: v["sites"]["hub"].update(engine="x"), "there is no site 'x': use hub, edge"),
        (lambda v: v["sites"]["hub"].update(accounts={"S": {"system": True}}), "no account for streams"),
        (lambda v: v["sites"]["edge"]["remotes"][0].update(site="x"), "there is no site 'x'"),
        (lambda v: v["sites"]["edge"]["remotes"][0].update(account="X"), "there is no account 'X'"),
        (lambda v: v["sites"]["edge"]["remotes"][0].pop("account"), "missing account of the link"),
        (lambda v: v["sites"]["edge"]["remotes"][0].pop("site"), "missing target of the link"),
        (lambda v: v["sites"]["edge"]["remotes"][0].update(site="edge"), "a link from a site to itself"),
        (
            lambda v: v["sites"]["edge"]["remotes"][0].update(user="z", password="z"),
            "hub has no user 'z' for the link",
        ),
        (lambda v: v["sites"]["hub"].update(tls={"cert": "x"}), "key is missing"),
        (
            lambda v: v["accounts"]["ACC"]["users"].append({"user": "l", "password": "p", "leaf": "x"}),
            "is for the link of 'x', which is not a site",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(tmp_path: Path, change: Any, said: str) -> None:
    with pytest.raises(SettingsError) as wrong:
        topology_of(tmp_path, changed(change))
    assert said in str(wrong.value)
    assert "sites.yaml:" in str(wrong.value)


def test_the_line_is_the_one_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("accounts: {A: {}}\nsites:\n  hub:\n    prot: 1\n")
    with pytest.raises(SettingsError, match=r"a\.yaml:4: sites\.hub\.prot: unknown key 'prot'"):
        read_topology([path])


def test_values_of_a_chart_give_a_site_its_domain_accounts_and_nodes(tmp_path: Path) -> None:
    value = {"sites": {"hub": {"helm": str(CINEMAS / "values" / "hub.yaml"), "port": 5000}}}
    hub = topology_of(tmp_path, value).site("hub")
    assert (hub.domain, hub.cluster, hub.size, hub.port) == ("hub", "headquarter", 3, 5000)
    assert [account.name for account in hub.business] == ["ACC"]


def test_two_site_files_are_one_too_many(tmp_path: Path) -> None:
    files = [write_yaml(tmp_path / name, SITES) for name in ("a.yaml", "b.yaml")]
    with pytest.raises(SettingsError, match="pass one site file"):
        read_topology(files)


def test_all_sites_can_be_made_small(tmp_path: Path) -> None:
    three = topology_of(tmp_path, changed(lambda v: v["sites"]["hub"].update(nodes=3)))
    assert [site.size for site in resized(three, 1).sites] == [1, 1]


def test_each_server_can_have_a_host_of_its_own(tmp_path: Path) -> None:
    said = {"nodes": 3, "host": ["a.example.com", "b.example.com", "c.example.com"]}
    topology = topology_of(tmp_path, changed(lambda v: v["sites"]["hub"].update(said)))
    hub = topology.site("hub")
    assert hub.client_urls() == tuple(f"nats://{name}.example.com:4222" for name in "abc")
    assert resized(topology, 1).site("hub").client_urls() == ("nats://a.example.com:4222",)
    for hosts in (["a", "b"], ["a", "a", "b"]):
        with pytest.raises(SettingsError, match=r"sites\.hub\.host: there must be as many different hosts"):
            topology_of(
                tmp_path, changed(lambda v, hosts=hosts: v["sites"]["hub"].update(nodes=3, host=hosts))
            )
