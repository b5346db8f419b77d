"""The Helm chart: its values, its settings and flags, and what Helm renders where it is installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.values_schema import problems
from headwater.bus.embedded import find_server
from headwater.cli.main import headwater
from headwater.loaded_settings import load
from headwater.settings import rows
from headwater.site.site_file import read_topology
from headwater.version import VERSION

HELM = Path(__file__).parents[2] / "deploy" / "helm"
CHART = HELM / "headwater"
TEMPLATES = sorted((CHART / "templates").iterdir())
SITES = ("hub", "spoke-1", "spoke-2")
SECRETS = {
    "replicator": {"secret": {"name": "s"}},
    "console": {"enabled": True, "tokenSecret": {"name": "t"}},
}
THREE_COPIES: dict[str, Any] = {
    **SECRETS,
    "engine": {"domain": "lake", "replicas": 3, "persistence": {"enabled": False}},
    "journal": {"urlSecret": {"name": "j"}},
    "tables": {"url": "s3://lake/prod", "region": "eu-west-1"},
}
SUBMITTED = {
    **THREE_COPIES,
    "replicator": {"mode": "submitted", "storeId": "5Xq2TbN0", "secret": {"name": "s"}},
}

needs_helm = pytest.mark.skipif(
    shutil.which("helm") is None, reason="Helm is missing: go install helm.sh/helm/v3/cmd/helm@v3.18.4"
)


def values(path: Path = CHART / "values.yaml") -> dict[str, Any]:
    """Return a file of values."""
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def wrong(value: Any) -> list[str]:
    """Return what the schema refuses of values."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    return list(problems(value, schema, schema))


@pytest.mark.parametrize("path", [CHART / "values.yaml", *(HELM / "cinemas" / f"{s}.yaml" for s in SITES)])
def test_the_schema_accepts_the_values(path: Path) -> None:
    assert wrong(values(path)) == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"engine": {"replica": 2}}, ".engine.replica is unknown"),
        ({"engine": {"replicas": "2"}}, ".engine.replicas is not of type integer"),
        ({"engine": {"replicas": 12}}, ".engine.replicas is out of bounds"),
        ({"nats": {"url": "http://x"}}, ".nats.url is not allowed"),
        ({"tables": {"url": "/var/lake"}}, ".tables.url is not allowed"),
        ({"replicator": {"mode": "two"}}, ".replicator.mode is not one of"),
        ({"console": {"tokenSecret": {"nam": "x"}}}, ".console.tokenSecret.nam is unknown"),
        ({"engine": {"env": {"A": 1}}}, ".engine.env.A is not of type string"),
    ],
)
def test_the_schema_refuses_mistakes(value: dict[str, Any], words: str) -> None:
    assert [problem for problem in wrong(value) if words in problem], wrong(value)


def leaves(value: dict[str, Any], path: str = "") -> set[str]:
    """Return the paths of all values that are not made of others."""
    found = set()
    for name, each in value.items():
        inner = f"{path}.{name}"
        found |= leaves(each, inner) if isinstance(each, dict) and each else {inner}
    return found


def test_the_templates_use_values_that_exist_and_every_value_is_used() -> None:
    text = "\n".join(path.read_text() for path in TEMPLATES)
    used = set(re.findall(r"(?:\.Values|\$v)((?:\.\w+)+)", text))
    known = leaves(values())
    assert {path for path in used if not any(f"{leaf}.".startswith(f"{path}.") for leaf in known)} == set()
    unused = {leaf for leaf in known if not any(f"{leaf}.".startswith(f"{path}.") for path in used)}
    assert unused == set()


def test_the_settings_that_the_chart_writes_exist() -> None:
    text = (CHART / "templates" / "configmap.yaml").read_text()
    # A name is followed by where its value comes from.
    written = set(re.findall(r'"([a-z_]+)" (?:\.Values|\(ternary|"/|"0|"json|8222)', text))
    written |= set(re.findall(r'set \$settings "(\w+)"', text))
    assert {"store", "nats_url", "domain", "http_port", "replicator", "standby", "tables"} <= written
    assert written <= {row.name for row in rows()}


@pytest.mark.parametrize("command", ["console", "replicator"])
def test_the_flags_that_the_chart_passes_exist(command: str) -> None:
    text = (CHART / "templates" / f"{command}.yaml").read_text()
    flags = set(re.findall(r"- (--[a-z-]+)", text))
    known = {
        flag for each in headwater.commands[command].params for flag in (*each.opts, *each.secondary_opts)
    }
    assert flags
    assert flags <= known


def test_the_chart_has_the_version_of_the_program() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


@pytest.mark.parametrize("site", SITES)
def test_the_nats_servers_of_the_cinemas_fit_their_engines(tmp_path: Path, site: str) -> None:
    config = values(HELM / "cinemas" / "nats" / f"{site}.yaml")["config"]
    engine = values(HELM / "cinemas" / f"{site}.yaml")
    merged = config["merge"]
    assert merged["default_js_domain"] == {engine["nats"]["account"]: engine["engine"]["domain"]}
    users = [user["user"] for user in merged["accounts"][engine["nats"]["account"]]["users"]]
    assert engine["nats"]["user"] in users
    # As the chart writes it: the merged keys of each part, and those of the top level.
    whole = {"port": -1, "leafnodes": {"port": -1, **config["leafnodes"]["merge"]}, **merged}
    whole["cluster"] = {"port": -1, **config["cluster"]["merge"]}
    (tmp_path / "nats.conf").write_text(json.dumps(whole))
    ran = subprocess.run(
        [find_server(), "-t", "-c", str(tmp_path / "nats.conf")], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


def test_the_values_of_the_nats_chart_run_on_one_machine_too() -> None:
    topology = read_topology([HELM / "cinemas" / "nats" / f"{site}.yaml" for site in SITES])
    assert topology.warnings == ()
    assert [(site.name, site.domain, site.size) for site in topology.sites] == [(s, s, 3) for s in SITES]
    assert [remote.account for remote in topology.site("spoke-1").remotes] == ["ACC", "SYS"]


def rendered(tmp_path: Path, value: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what Helm makes of values."""
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(value))
    command = ["helm", "template", "lake", str(CHART), "-f", str(tmp_path / "values.yaml")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return [document for document in yaml.safe_load_all(ran.stdout) if document]


def environment_of(documents: list[dict[str, Any]]) -> dict[str, str]:
    """Return the variables of an engine's container, with values in place of those of its secrets."""
    (pod,) = (each["spec"]["template"]["spec"] for each in documents if each["kind"] == "StatefulSet")
    journal = {"HEADWATER_JOURNAL": "nats://j:secret@a,b,c/LAKE"}
    names = [each["name"] for each in pod["containers"][0]["env"]]
    return {name: journal.get(name, "secret") for name in names if name.startswith("HEADWATER_")}


@needs_helm
def test_helm_finds_nothing_wrong() -> None:
    for site in SITES:
        command = ["helm", "lint", "--strict", str(CHART), "-f", str(HELM / "cinemas" / f"{site}.yaml")]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr


@needs_helm
@pytest.mark.parametrize(
    "value",
    [*(values(HELM / "cinemas" / f"{site}.yaml") for site in SITES), THREE_COPIES, SUBMITTED],
    ids=[*SITES, "three-copies", "submitted"],
)
def test_what_helm_renders_is_whole_and_its_settings_load(tmp_path: Path, value: dict[str, Any]) -> None:
    documents = rendered(tmp_path, value)
    kinds = [document["kind"] for document in documents]
    assert kinds.count("StatefulSet") == 1
    assert kinds.count("Deployment") == bool(value.get("console")) + (
        "storeId" in value.get("replicator", {})
    )
    (settings,) = (
        document["data"]["engine.toml"] for document in documents if document["kind"] == "ConfigMap"
    )
    (tmp_path / "engine.toml").write_text(settings)
    loaded = load(environ=environment_of(documents), config=tmp_path / "engine.toml").settings
    assert loaded.domain == value["engine"]["domain"]
    assert loaded.standby == (value["engine"].get("replicas", 1) > 1)
    assert loaded.http_port == 8222
    assert tomllib.loads(settings)["store"] == "/var/lib/headwater/store"
    for document in documents:
        pod = document.get("spec", {}).get("template", {}).get("spec")
        if pod is None:
            continue
        assert pod["securityContext"]["runAsNonRoot"] is True
        names = {volume["name"] for volume in pod["volumes"]}
        names |= {claim["metadata"]["name"] for claim in document["spec"].get("volumeClaimTemplates", ())}
        for container in pod["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= names
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert len({each["name"] for each in container.get("env", ())}) == len(container.get("env", ()))


@needs_helm
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({}, "engine.domain is required"),
        ({"engine": {"domain": "a", "replicas": 2}}, "needs a journal and tables"),
        ({"engine": {"domain": "a"}, "journal": {"url": "s3://x/y"}}, "a journal needs tables.url"),
        ({"engine": {"domain": "a"}, "replicator": {"mode": "submitted"}}, "needs replicator.storeId"),
        ({"engine": {"domain": "a"}, "console": {"enabled": True}}, "needs console.tokenSecret"),
        ({"engine": {"domain": "a", "replica": 2}}, "replica"),
    ],
)
def test_helm_refuses_values_that_cannot_work(tmp_path: Path, value: dict[str, Any], words: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(words)):
        rendered(tmp_path, value)
