"""Site files on free ports, and the fleets that run them."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from headwater.bus.free_port import reserve
from headwater.site.layout import SiteFolders
from headwater.site.run_record import read_record
from headwater.site.site_file import read_topology
from headwater.site.topology import Topology
from identities import Operator

READY_S = 180.0
CINEMAS = Path(__file__).parent.parent / "examples" / "cinemas"
ACCOUNTS: dict[str, Any] = {
    "SYS": {"system": True, "users": [{"user": "sys", "password": "sys"}]},
    "ACC": {"users": [{"user": "acc", "password": "acc"}]},
}
PORTS = ("port", "route_port", "leaf_port", "monitor_port")


def free_ports(count: int, run: int = 1) -> list[int]:
    """Return free ports, each the first of this many in a row.

    They are below the range that the kernel uses for outgoing connections, so that none of these takes one.
    """
    found: list[int] = []
    while len(found) < count:
        first = random.randrange(12_000, 32_000)
        if all(reserve(port) for port in range(first, first + run)):
            found.append(first)
    return found


def cinemas(nodes: int = 1, streams: Mapping[str, list[Any]] | None = None) -> dict[str, Any]:
    """Return a headquarters and two cinemas, on free ports."""
    sites: dict[str, Any] = {"hub": {}, "spoke-1": {}, "spoke-2": {}}
    # All at once: ports that are found one site after the other may be the same.
    ports = iter(free_ports(len(sites) * len(PORTS), nodes))
    for name, site in sites.items():
        if name != "hub":
            accounts = ("ACC", "SYS")
            site["remotes"] = [{"site": "hub", "account": a, "user": a.lower()} for a in accounts]
        site |= {port: next(ports) for port in PORTS}
        site |= {"nodes": nodes, "streams": (streams or {}).get(name, [])}
    return {"accounts": ACCOUNTS, "sites": sites}


def operator_accounts(directory: Path, made: Operator) -> dict[str, Any]:
    """Return the part of a site file that has one account of an operator."""
    config = made.config
    operator = next(line for line in config.splitlines() if line.startswith("operator")).split(": ", 1)[1]
    (directory / "operator.jwt").write_text(operator.strip())
    jwt = config[config.index("resolver_preload") :].split("{", 1)[1].split("}", 1)[0].strip().split(": ")[1]
    (directory / "account.jwt").write_text(jwt.strip())
    users = [{"user": "u", "creds": made.creds_file}]
    return {
        "operator": str(directory / "operator.jwt"),
        "accounts": {"A": {"jwt": str(directory / "account.jwt"), "users": users}},
    }


def write_yaml(path: Path, value: Any) -> Path:
    """Write a document, and return its path."""
    path.write_text(yaml.safe_dump(json.loads(json.dumps(value)), sort_keys=False))
    return path


def topology_of(directory: Path, value: Any) -> Topology:
    """Return the topology of a site file with this in it."""
    return read_topology([write_yaml(directory / "sites.yaml", value)])


class RunningSites:
    """`headwater site up` as a process of its own."""

    def __init__(self, layout: SiteFolders, file: Path, options: Sequence[str] = ("--no-spark",)) -> None:
        self.layout = layout
        self.topology = layout.topology
        self.file = file
        self._command = ["site", "up", str(file), "--dir", str(layout.directory), "--no-contexts", *options]
        self._log = layout.directory.parent / "site.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def said(self) -> str:
        """Return what it has said, in every run."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def log_of(self, path: str) -> str:
        """Return what one of its processes has said."""
        return (self.layout.directory / path).read_text(errors="replace")

    def start(self) -> None:
        """Return once everything is ready."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headwater", *self._command], stdout=log, stderr=log, env=clean
            )
        deadline = time.monotonic() + READY_S
        while True:
            record = read_record(self.layout.directory)
            if record is not None and record.is_ready and record.keeper.pid == self._process.pid:
                return
            assert self._process.poll() is None, f"the sites ended: {self.said}"
            assert time.monotonic() < deadline, f"the sites do not get ready: {self.said}"
            time.sleep(0.05)

    def stop(self) -> int:
        """End everything in an orderly way; return the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        try:
            return self._process.wait(180)
        finally:
            self._process.kill()
            self._process.wait()


@contextmanager
def running_sites(
    directory: Path, value: Any, *options: str, detours: Mapping[tuple[str, str], str] | None = None
) -> Iterator[RunningSites]:
    """Run the sites of a file with this in it; its links may take a detour."""
    directory.mkdir(parents=True, exist_ok=True)
    for (site, to), url in (detours or {}).items():
        for remote in value["sites"][site]["remotes"]:
            if remote["site"] == to:
                remote["url"] = url
    file = write_yaml(directory / "sites.yaml", value)
    sites = RunningSites(
        SiteFolders(read_topology([file]), directory / "run"), file, options or ("--no-spark",)
    )
    sites.start()
    try:
        yield sites
    finally:
        sites.stop()
