"""Values of the nats chart become sites; ignored keys are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import SettingsError
from headwater.site.document import read_document
from headwater.site.helm import is_values, read_values, topology_of
from headwater.site.site_file import read_topology
from topologies import CINEMAS

JETSTREAM: dict[str, Any] = {"jetstream": {"enabled": True, "merge": {"domain": "d"}}}
RELEASES = [CINEMAS / "values" / f"{name}.yaml" for name in ("hub", "spoke-1", "spoke-2")]


def values_of(directory: Path, value: Any) -> Any:
    """Return the contents of a values file."""
    (directory / "v.yaml").write_text(json.dumps(value))
    return read_values(read_document(directory / "v.yaml"))


def test_three_releases_are_a_hub_and_two_spokes() -> None:
    topology = read_topology(RELEASES)
    assert topology.warnings == ()
    assert [(site.name, site.domain, site.cluster, site.size) for site in topology.sites] == [
        ("hub", "hub", "headquarter", 3),
        ("spoke-1", "spoke-1", "spoke-1", 3),
        ("spoke-2", "spoke-2", "spoke-2", 3),
    ]
    links = [(remote.site, remote.account, remote.user.name) for remote in topology.site("spoke-1").remotes]
    assert links == [("hub", "ACC", "acc"), ("hub", "SYS", "sys")]
    assert [site.system is not None for site in topology.sites] == [True] * 3


def config(**parts: Any) -> dict[str, Any]:
    """Return values with JetStream and these parts of `config`."""
    return {"config": {**JETSTREAM, **parts}}


def test_other_keys_are_ignored_with_a_warning(tmp_path: Path) -> None:
    value = {**config(websocket={"enabled": True}, cluster={"patch": [{"op": "add"}]}), "tlsCA": {"dir": "x"}}
    assert sorted(values_of(tmp_path, value).warnings) == [
        f"{tmp_path}/v.yaml:1: config.cluster.patch is ignored",
        f"{tmp_path}/v.yaml:1: config.websocket is ignored",
        f"{tmp_path}/v.yaml:1: tlsCA is ignored",
    ]


def test_what_changes_nothing_on_one_machine_is_accepted_without_a_warning(tmp_path: Path) -> None:
    off = {"enabled": False, "port": 1, "merge": {}, "patch": []}
    value = {
        "global": {"labels": {}},
        "tlsCA": {"enabled": False, "dir": "/etc/ca"},
        "natsBox": {"enabled": True},
        "config": {
            "cluster": {"enabled": True, "noAdvertise": True, "port": 6222, "routeURLs": {"user": "u"}},
            "jetstream": {**JETSTREAM["jetstream"], "fileStore": {"pvc": {"size": "10Gi"}}, "patch": []},
            "nats": {"port": 4222},
            "monitor": {"enabled": True},
            "serverNamePrefix": "",
            "leafnodes": {"enabled": False, "port": 7422, "tls": {"enabled": False}, "merge": {}},
            **dict.fromkeys(("websocket", "mqtt", "gateway", "resolver", "profiling"), off),
        },
    }
    assert values_of(tmp_path, value).warnings == ()


def test_servers_without_jetstream_name_the_domain_of_their_engine(tmp_path: Path) -> None:
    accounts: dict[str, Any] = {"SYS": {}, "ACC": {"users": []}}
    merge: dict[str, Any] = {"accounts": accounts, "default_js_domain": {"ACC": "lake"}}
    assert values_of(tmp_path, {"config": {"merge": merge}}).domain == "lake"
    enabled = {"config": {**JETSTREAM, "merge": merge}}
    assert values_of(tmp_path, enabled).domain == "d", "that of JetStream wins"
    with pytest.raises(SettingsError, match="default_js_domain must name the domain of the first account"):
        values_of(tmp_path, {"config": {"merge": {"accounts": accounts, "default_js_domain": {"SYS": "x"}}}})


def test_a_remote_with_several_addresses_uses_the_first_one(tmp_path: Path) -> None:
    remote = {"urls": ["nats://a:b@one:7422", "nats://a:b@two:7422"], "account": "ACC", "deny_imports": ["x"]}
    found = values_of(tmp_path, config(leafnodes={"enabled": True, "merge": {"remotes": [remote]}}))
    assert [link.address for link in found.links] == ["one:7422"]
    assert found.warnings == ()


def test_a_cluster_has_three_nodes_by_default(tmp_path: Path) -> None:
    sizes = [
        values_of(tmp_path, config(cluster=cluster)).size
        for cluster in ({}, {"enabled": False}, {"enabled": True}, {"enabled": True, "replicas": 1})
    ]
    assert sizes == [1, 1, 3, 1]


def test_the_system_account_is_sys_by_default(tmp_path: Path) -> None:
    users = [{"user": "u", "password": "$2a$11$hash"}]
    value = config(merge={"accounts": {"SYS": {"users": users}, "ACC": {"users": users}}})
    accounts = values_of(tmp_path, value).accounts
    assert [(account.name, account.is_system) for account in accounts] == [("SYS", True), ("ACC", False)]
    assert (accounts[1].users[0].password, accounts[1].users[0].secret) == ("$2a$11$hash", "")


def remotes(*links: dict[str, str]) -> dict[str, Any]:
    """Return values with these leaf remotes."""
    return config(leafnodes={"enabled": True, "merge": {"remotes": list(links)}})


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"config": {"jetstream": {"enabled": False}}}, "must be enabled and have merge.domain"),
        ({"config": {"jetstream": {"enabled": True}}}, "must be enabled and have merge.domain"),
        (remotes({"url": "nats://h"}), "a remote needs a url and an account"),
        (remotes({"url": "nats://h:x", "account": "A"}), "is not an address"),
        (config(merge={"accounts": {"A": {"users": [{"user": "x"}]}}}), "a user and a password"),
        ({"nats": {"jetstream": {"enabled": True, "domain": "d"}}}, "values of the nats chart 0.x"),
    ],
)
def test_values_that_cannot_run_are_refused(tmp_path: Path, value: Any, said: str) -> None:
    with pytest.raises(SettingsError) as wrong:
        values_of(tmp_path, value)
    assert said in str(wrong.value)


def test_a_link_needs_one_release_without_links() -> None:
    spoke = read_values(read_document(RELEASES[1]))
    with pytest.raises(SettingsError, match="exactly one release must have"):
        topology_of({"spoke": spoke})


def test_values_differ_from_a_site_file(tmp_path: Path) -> None:
    assert is_values(read_document(RELEASES[0]))
    assert not is_values(read_document(CINEMAS / "cinemas.yaml"))
