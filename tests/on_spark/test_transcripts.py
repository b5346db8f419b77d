"""The transcripts that users were promised, with Spark copying: by our command, and by the real `nats` one.

One hub for both: a nats-server without JetStream, an engine that serves domain `hub` there, and two spokes
that are nats-servers with domains of their own behind leaf nodes.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conformance import nats_cli
from engines import engine
from jetstreams import Ran, Shell, rows
from servers import nats_server

PATIENCE_S = 600.0
COMMON = {"retention": "limits", "max_consumers": -1, "storage": "file", "discard": "new", "num_replicas": 1}
PROGRAMS = [
    pytest.param("headwater", id="headwater"),
    pytest.param(
        "nats",
        id="nats_command",
        marks=pytest.mark.skipif(
            nats_cli.binary() is None,
            reason=f"no nats on PATH nor in {nats_cli.VARIABLE}: make test-nats-cli",
        ),
    ),
]


class RealNats(Shell):
    """Runs the real command line as the users do."""

    def __call__(self, *arguments: str, stdin: str | bytes = "", **environ: str) -> Ran:
        """Run a command whatever its exit code."""
        program = nats_cli.binary()
        assert program is not None
        ran = subprocess.run(
            [program, *arguments],
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), **self.environ, **environ},
            input=stdin if isinstance(stdin, str) else stdin.decode(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        return Ran(ran.returncode, ran.stdout, ran.stderr)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Three sites, and a folder of contexts of which `hub` is one."""
    directory = tmp_path_factory.mktemp("sites")
    contexts = directory / "nats" / "context"
    contexts.mkdir(parents=True)
    with asyncio.Runner() as runner:
        sites = AsyncExitStack()

        async def run() -> str:
            hub = await sites.enter_async_context(nats_server(leaf=True))
            remote = f'leafnodes {{ remotes: [ {{ url: "{hub.leaf_url}" }} ] }}'
            for spoke in ("spoke-1", "spoke-2"):
                await sites.enter_async_context(nats_server(remote, jetstream=spoke))
            leaf = hub.leaf_url.replace("nats://", "nats-leaf://")
            options = (
                "--nats",
                hub.client_url,
                "--leaf",
                leaf,
                "--domain",
                "hub",
                "--spark-master",
                "local[2]",
            )
            await sites.enter_async_context(engine(directory / "engine", *options))
            return hub.client_url

        try:
            url = runner.run(run())
            (contexts / "hub.json").write_text(json.dumps({"url": url}))
            yield directory
        finally:
            runner.run(sites.aclose())


@pytest.fixture(params=PROGRAMS)
def shell(request: pytest.FixtureRequest, hub: Path) -> Iterator[Shell]:
    """Each of the two commands, at the hub; afterwards no stream is left."""
    kind = RealNats if request.param == "nats" else Shell
    running = kind("", hub, NATS_CONTEXT="hub")
    del running.environ["NATS_URL"]
    for domain in ("hub", "spoke-1", "spoke-2"):
        until(partial(answers, running, domain), f"{domain} is there")
    yield running
    ours = Shell("", hub, NATS_CONTEXT="hub")
    del ours.environ["NATS_URL"]
    for domain in ("hub", "spoke-1", "spoke-2"):
        for name in ours.ok("s", "ls", "--names", f"--js-domain={domain}").split():
            ours.ok("s", "rm", name, "--force", f"--js-domain={domain}")


def answers(shell: Shell, domain: str) -> bool:
    """Return whether a domain is served."""
    return shell("s", "ls", "--names", f"--js-domain={domain}").code == 0


def until(done: Callable[[], bool], what: str) -> None:
    """Return once it is as wanted."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, f"{what}: never"
        time.sleep(0.1)


def test_orders_returns_archive_and_report(shell: Shell, tmp_path: Path) -> None:
    at_hub = "--js-domain=hub"
    for name in ("ORDERS", "RETURNS"):
        shell.ok("s", "add", name, "--subjects", f"{name}.*", "--storage", "memory", "--defaults", at_hub)
    first = shell.ok("s", "report", at_hub)
    assert first.startswith("Obtaining Stream stats\n")
    assert sorted(row[:2] for row in rows(first, "Stream Report")[1:]) == [
        ["ORDERS", "Memory"],
        ["RETURNS", "Memory"],
    ]
    made = shell.ok("s", "add", *archive_flags(shell), "--defaults", at_hub)
    assert "Stream ARCHIVE was created" in made
    assert "Sources: ORDERS" in made
    mirrored = shell.ok("s", "add", *report_flags(shell, tmp_path), "--defaults", at_hub)
    assert "Mirror: ARCHIVE" in mirrored
    archive, report = (shell.ok("stream", "info", name, at_hub) for name in ("ARCHIVE", "REPORT"))
    assert "Source Information:" in archive
    assert "Mirror Information:" in report
    second = rows(shell.ok("s", "report", at_hub), "Replication Report")
    assert second[0][:4] == ["Stream", "Kind", "API Prefix", "Source Stream"]
    assert [[row[0], row[1], row[3]] for row in second[1:]] == [
        ["ARCHIVE", "Source", "ORDERS"],
        ["ARCHIVE", "Source", "RETURNS"],
        ["REPORT", "Mirror", "ARCHIVE"],
    ]

    shell.ok("req", "ORDERS.new", "ORDER {{Count}}", "--count", "100")
    shell.ok("req", "RETURNS.new", "RETURN {{Count}}", "--count", "100")
    until(lambda: shell.json("s", "info", "REPORT", at_hub)["state"]["messages"] == 200, "REPORT has 200")
    if not isinstance(shell, RealNats):
        said = shell.ok("s", "catch-up", "REPORT", "--within", "60s", at_hub)
        assert said.endswith("Stream REPORT has caught up, at sequence 200\n")
    dot = tmp_path / "replication.dot"
    third = shell.ok("s", "report", "--dot", str(dot), at_hub)
    held = {row[0]: row[4] for row in rows(third, "Stream Report")[1:]}
    assert held == {"ORDERS": "100", "RETURNS": "100", "ARCHIVE": "200", "REPORT": "200"}
    for row in rows(third, "Replication Report")[1:]:
        assert (row[-2], row[-1]) == ("0", ""), row
    assert 'color="blue",label="Mirror"' in dot.read_text()
    assert dot.read_text().count('color="green"') == 2
    stored = [shell.json("s", "get", name, "200", at_hub) for name in ("ARCHIVE", "REPORT")]
    assert stored[0] == stored[1]


def archive_flags(shell: Shell) -> list[str]:
    """Return the transcript's flags; the real command asks about plain names even with --defaults."""
    if isinstance(shell, RealNats):
        named = [json.dumps({"name": name}) for name in ("ORDERS", "RETURNS")]
        return ["ARCHIVE", "--source", named[0], "--source", named[1]]
    return ["ARCHIVE", "--source", "ORDERS", "--source", "RETURNS"]


def report_flags(shell: Shell, folder: Path) -> list[str]:
    """Return the transcript's flags, or a file where the real command would ask."""
    if isinstance(shell, RealNats):
        file = folder / "report.json"
        file.write_text(json.dumps({"name": "REPORT", **COMMON, "mirror": {"name": "ARCHIVE"}}))
        return ["--config", str(file)]
    return ["REPORT", "--mirror", "ARCHIVE"]


def test_cinemas_in_domains_behind_leaf_nodes(shell: Shell, tmp_path: Path) -> None:
    declared: dict[str, tuple[str, dict[str, Any]]] = {
        "cinema-a": ("hub", {"subjects": ["cinema-a.new.films"]}),
        "cinema-a-mirror": ("spoke-1", {"mirror": external("cinema-a", "hub")}),
        "tickets-1": ("spoke-1", {"subjects": ["tickets-1.>"]}),
        "tickets-2": ("spoke-2", {"subjects": ["tickets-2.>"]}),
        "sales": ("hub", {"sources": [external("tickets-1", "spoke-1"), external("tickets-2", "spoke-2")]}),
    }
    for name, (domain, config) in declared.items():
        file = tmp_path / f"{domain}.{name}.json"
        file.write_text(json.dumps({"name": name, **COMMON, **config}))
        shell.ok("--context=hub", "str", "add", "--config", str(file), f"--js-domain={domain}")
    for subject in ("cinema-a.new.films", "tickets-1.sold", "tickets-2.sold"):
        shell.ok("req", subject, "{{Count}}", "--count", "10")

    def messages(name: str) -> int:
        domain = declared[name][0]
        return int(shell.json("s", "info", name, f"--js-domain={domain}")["state"]["messages"])

    until(lambda: messages("cinema-a-mirror") == 10, "the spoke's nats-server mirrors the hub")
    until(lambda: messages("sales") == 20, "the hub sources both spokes")
    spoke = rows(shell.ok("--context=hub", "str", "report", "--js-domain=spoke-1"), "Replication Report")
    assert spoke[1][:4] == ["cinema-a-mirror", "Mirror", "$JS.hub.API", "cinema-a"]
    at_hub = rows(shell.ok("--context=hub", "str", "report", "--js-domain=hub"), "Replication Report")
    assert sorted(row[:4] for row in at_hub[1:]) == [
        ["sales", "Source", "$JS.spoke-1.API", "tickets-1"],
        ["sales", "Source", "$JS.spoke-2.API", "tickets-2"],
    ]
    assert [row[-2:] for row in at_hub[1:]] == [["0", ""], ["0", ""]]


def external(name: str, domain: str) -> dict[str, Any]:
    """Return an upstream in another domain."""
    return {"name": name, "external": {"api": f"$JS.{domain}.API", "deliver": ""}}
