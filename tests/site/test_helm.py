"""Values of the nats chart become sites; keys that do not count are named."""

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

VALUES: dict[str, Any] = {"nats": {"jetstream": {"enabled": True, "domain": "d"}}}
RELEASES = [CINEMAS / "values" / f"{name}.yaml" for name in ("hub", "spoke-1", "spoke-2")]


def values_of(directory: Path, value: Any) -> Any:
    """Return what a values file with this in it says."""
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


def test_keys_that_do_not_count_are_passed_over_aloud(tmp_path: Path) -> None:
    value = {**VALUES, "natsbox": {"enabled": False}, "cluster": {"enabled": True, "noAdvertise": True}}
    assert values_of(tmp_path, value).warnings == (
        f"{tmp_path}/v.yaml:1: natsbox is passed over",
        f"{tmp_path}/v.yaml:1: cluster.noAdvertise is passed over",
    )


def test_a_cluster_has_three_nodes_unless_it_says_otherwise(tmp_path: Path) -> None:
    sizes = [
        values_of(tmp_path, {**VALUES, "cluster": cluster}).size
        for cluster in ({}, {"enabled": False}, {"enabled": True}, {"enabled": True, "replicas": 1})
    ]
    assert sizes == [1, 1, 3, 1]


def test_the_system_account_is_called_sys_where_nobody_names_it(tmp_path: Path) -> None:
    users = [{"user": "u", "pass": "$2a$11$hash"}]
    value = {**VALUES, "auth": {"basic": {"accounts": {"SYS": {"users": users}, "ACC": {"users": users}}}}}
    accounts = values_of(tmp_path, value).accounts
    assert [(account.name, account.is_system) for account in accounts] == [("SYS", True), ("ACC", False)]
    assert (accounts[1].users[0].password, accounts[1].users[0].secret) == ("$2a$11$hash", "")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"nats": {"jetstream": {"enabled": False, "domain": "d"}}}, "must be enabled and have a domain"),
        ({"nats": {"jetstream": {"enabled": True}}}, "must be enabled and have a domain"),
        ({**VALUES, "leafnodes": {"remotes": [{"url": "nats://h"}]}}, "a remote needs a url and an account"),
        (
            {**VALUES, "leafnodes": {"remotes": [{"url": "nats://h:x", "account": "A"}]}},
            "is not an address",
        ),
        ({**VALUES, "auth": {"basic": {"accounts": {"A": {"users": [{"user": "x"}]}}}}}, "a user and a pass"),
    ],
)
def test_values_that_cannot_run_are_refused(tmp_path: Path, value: Any, said: str) -> None:
    with pytest.raises(SettingsError) as wrong:
        values_of(tmp_path, value)
    assert said in str(wrong.value)


def test_a_link_needs_one_release_that_listens() -> None:
    spoke = read_values(read_document(RELEASES[1]))
    with pytest.raises(SettingsError, match=r"0 of these releases have leafnodes\.enabled"):
        topology_of({"spoke": spoke})


def test_values_are_told_from_a_site_file(tmp_path: Path) -> None:
    assert is_values(read_document(RELEASES[0]))
    assert not is_values(read_document(CINEMAS / "cinemas.yaml"))
