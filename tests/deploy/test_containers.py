"""The container file, the compose files and the systemd units; no container is built or run here."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from headwater.cli.main import headwater
from headwater.settings import rows

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CONTAINER = DEPLOY / "container" / "Dockerfile"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def stages() -> dict[str, list[str]]:
    """Return the instructions of each stage of the container file, by name."""
    text = re.sub(r"\\\n\s*", " ", CONTAINER.read_text())
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if match := re.fullmatch(r"FROM (\S+) AS (\S+)", line):
            found[match[2]] = [line]
        elif line and not line.startswith("#"):
            found[list(found)[-1]].append(line)
    return found


@pytest.mark.parametrize("target", ["engine", "spark"])
def test_the_images_run_without_root_and_without_build_tools(target: str) -> None:
    lines = stages()[target]
    assert lines[-1] == "USER 10001"
    assert ("openjdk-17" in " ".join(lines)) == (target == "spark")
    copied = [line for line in lines if line.startswith("COPY")]
    assert copied == [
        f"COPY --from=build{'-spark' if target == 'spark' else ''} /opt/headwater /opt/headwater"
    ]


def test_what_the_images_are_built_from_exists_and_is_in_the_context() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name for line in chain(*stages().values()) for name in re.findall(r"/src\[([\w,]+)\]", line)}
    assert {each for extra in extras for each in extra.split(",")} <= set(project["optional-dependencies"])
    ignored = CONTAINER.with_name("Dockerfile.dockerignore").read_text().splitlines()
    for line in stages()["build"]:
        if line.startswith("COPY"):
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists()
                assert f"!{source}" in ignored
    assert project["readme"] == "README.md"


def service(name: str) -> dict[str, Any]:
    """Return a service of the monitored containers."""
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose" / "monitored.yaml").read_text())["services"][
        name
    ]
    return found


def test_the_monitored_containers_fit_those_that_they_monitor() -> None:
    plain = yaml.safe_load((DEPLOY / "compose" / "three-copies.yaml").read_text())
    monitored = yaml.safe_load((DEPLOY / "compose" / "monitored.yaml").read_text())
    known = {*plain["services"], *monitored["services"]}
    for name, each in monitored["services"].items():
        assert set(each.get("depends_on", ())) <= known
        assert name in plain["services"] or "image" in each or "build" in each
        for volume in each.get("volumes", ()):
            if volume.startswith("."):
                assert (DEPLOY / "compose" / volume.split(":")[0]).exists(), volume
    settings = {row.name for row in rows()}
    for variable in service("engine-1")["environment"]:
        assert variable.removeprefix("HEADWATER_").lower() in settings
    for build in (plain["x-engine"]["build"], service("console")["build"]):
        assert build["target"] in stages()
        assert (ROOT / build["dockerfile"]).exists()


def test_the_console_is_started_with_flags_that_exist_and_only_this_machine_reaches_it() -> None:
    console = service("console")
    command, *flags = console["command"]
    known = {flag for each in headwater.commands[command].params for flag in each.opts}
    assert {flag.partition("=")[0] for flag in flags} <= known
    for name in ("console", "prometheus", "grafana"):
        assert all(port.startswith("127.0.0.1:") for port in service(name)["ports"])


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="Prometheus is missing: apt-get install -y prometheus"
)
def test_promtool_accepts_the_configuration_of_prometheus(tmp_path: Path) -> None:
    for path in (DEPLOY / "compose" / "prometheus.yml", DEPLOY / "prometheus" / "headwater.rules.yml"):
        shutil.copy(path, tmp_path)
    command = ["promtool", "check", "config", str(tmp_path / "prometheus.yml")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    targets = yaml.safe_load((tmp_path / "prometheus.yml").read_text())["scrape_configs"][0]["static_configs"]
    assert targets == [{"targets": ["engine-1:8222", "engine-2:8222"]}]


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_the_units_start_commands_that_exist(unit: Path) -> None:
    command = re.search(r"^ExecStart=\S+/headwater (.*)$", unit.read_text(), re.M)
    assert command is not None
    name, *words = command[1].split()
    known = {flag for each in headwater.commands[name].params for flag in each.opts}
    assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd is missing: apt-get install -y systemd"
)
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_systemd_accepts_the_units(tmp_path: Path, unit: Path) -> None:
    # It must be there to be verified, and is not installed at this place here.
    text = unit.read_text().replace("/opt/headwater/bin/headwater", "/bin/true")
    (tmp_path / unit.name).write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / unit.name)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
