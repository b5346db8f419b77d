"""The code blocks of a page, run as a reader would run them: in order, in an empty directory.

Blocks marked `sh` and `python` are run; all others are shown only. A block that starts an engine runs until
the page ends.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import yaml

from headwater.bus.free_port import free_port
from topologies import PORTS, free_ports

ROOT = Path(__file__).parent.parent.parent
PAGES = {
    "README.md": "ARCHIVE",
    "docs/guides/replicate.md": "BACKUP",
    "docs/guides/query.md": "orders.eu",
    "docs/guides/pipelines.md": '{"minute":"10:00","orders":3}',
    "docs/guides/python.md": "BACKUP holds 3 messages; it is live and has 0 gaps",
    "docs/guides/migrate.md": "orders~eu",
    "docs/guides/doors.md": "Duplicate: true",
    "docs/guides/production.md": "1 stream checked, no problems",
    "docs/guides/stuck-source.md": "Stream ARCHIVE has caught up, at sequence 10",
    "docs/guides/repair.md": "1 problem before, none left",
    "docs/guides/hub-and-spokes.md": "Stream sales has caught up, at sequence 300",
    "docs/guides/tables-in-a-bucket.md": "100 orders",
    "docs/guides/three-copies.md": "host-2 has 100 orders",
    "docs/guides/fail-over-drill.md": "Messages: 300",
    "docs/guides/runbooks.md": "Messages: 1,325",
    "examples/sensors/README.md": "daily.roof",
    "examples/clicks/README.md": "60,630.0",
    "examples/enrichment/README.md": "Ada,20\nGrace,10",
    "examples/backfill/README.md": "1000 messages, the last one: 1000",
}
"""Pages whose blocks are run, and words that must be in what they print."""
BUCKET = "docs/guides/tables-in-a-bucket.md"
"""The page whose reader has a bucket `my-lake` and its credentials."""
RUNBOOKS = "docs/guides/runbooks.md"
"""The page whose reader has a store `./lake` of an older release, and no need for Java."""
OPERATIONS = (
    *("docs/guides/production.md", "docs/guides/stuck-source.md", "docs/guides/hub-and-spokes.md"),
    "docs/guides/fail-over-drill.md",
)
READY = "headwater is ready"
PATIENCE_S = 300.0
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
_SHOWN = re.compile(r"(^<!-- not run: [^\n]+ -->\n)?^```(\w*)\n(.*?)^```$", re.M | re.S)
_SITE = re.compile(r"^headwater site up (\S+)", re.M)
_PORT = "4222"


@dataclass(frozen=True)
class Block:
    """One block of a page."""

    language: str
    text: str

    @property
    def serves(self) -> bool:
        """Return whether the block starts an engine, which does not return."""
        return self.language == "sh" and bool(re.search(r"^headwater serve\b", self.text, re.M))


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page that can be run."""
    found = [Block(*match.groups()) for match in _BLOCK.finditer(page.read_text())]
    return [block for block in found if block.language in ("sh", "python")]


def unexplained(page: Path) -> list[str]:
    """Return the blocks with commands that are neither run nor preceded by a comment that says why."""
    found = [match.groups() for match in _SHOWN.finditer(page.read_text())]
    return [
        text
        for reason, language, text in found
        if language not in ("sh", "python") and not reason and re.search(r"^(headwater|nats) ", text, re.M)
    ]


def copy_examples(examples: Path, directory: Path) -> None:
    """Copy the examples to where a page is followed, with free ports in their site files."""
    shutil.copytree(examples, directory / examples.name, ignore=shutil.ignore_patterns(".*"))
    for file in (directory / examples.name).glob("*/*.yaml"):
        document = yaml.safe_load(file.read_text())
        most = max(site.get("nodes", 1) for site in document["sites"].values())
        ports = iter(free_ports(len(document["sites"]) * len(PORTS), most))
        for site in document["sites"].values():
            site |= {port: next(ports) for port in PORTS}
        file.write_text(yaml.safe_dump(document, sort_keys=False))


def follow(page: Path, directory: Path, environment: Mapping[str, str] | None = None) -> None:
    """Run the blocks of a page in a directory with a copy of the examples, and check what they print."""
    copy_examples(ROOT / "examples", directory)
    assert PAGES[page.relative_to(ROOT).as_posix()] in Reader(directory, environment or {}).follow(page)


class Reader:
    """Runs what a page says in a directory."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._directory = directory
        self._more = environment
        self._port = str(free_port())
        self._servers: list[subprocess.Popen[bytes]] = []
        self._url: dict[str, str] = {}

    def follow(self, page: Path) -> str:
        """Run the blocks of a page; return what they printed. Fail at the first one that fails."""
        # The variable would win over the contexts that a site writes.
        self._url = {} if _SITE.search(page.read_text()) else {"NATS_URL": f"nats://127.0.0.1:{self._port}"}
        try:
            return "".join(self._run(block) for block in blocks(page))
        finally:
            for server in self._servers:
                server.terminate()
                server.wait(60)
            self._stop_noted()
            for file in _SITE.findall("\n".join(block.text for block in blocks(page))):
                self._stop_site(file)

    def _stop_noted(self) -> None:
        """Stop what a block started in the background and noted in a file."""
        for file in self._directory.glob("*.pid"):
            pid = int(file.read_text())
            with suppress(OSError):
                # Another process may have got the id by now.
                if str(self._directory).encode() in Path(f"/proc/{pid}/environ").read_bytes():
                    os.kill(pid, signal.SIGKILL)

    def _stop_site(self, file: str) -> None:
        """Stop a site that the page may have left running."""
        command = ["headwater", "site", "down", file]
        subprocess.run(
            command, cwd=self._directory, env=self._environment(), capture_output=True, check=False
        )

    def _run(self, block: Block) -> str:
        text = block.text.replace(f":{_PORT}", f":{self._port}")
        command = (
            ["bash", "-euo", "pipefail", "-c", text]
            if block.language == "sh"
            else [sys.executable, "-c", text]
        )
        if block.serves:
            self._serve(command)
            return ""
        ran = subprocess.run(
            command,
            cwd=self._directory,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert ran.returncode == 0, (
            f"this block ends with {ran.returncode}:\n{text}\n{ran.stdout}\n{self._log}"
        )
        return ran.stdout

    def _serve(self, command: list[str]) -> None:
        # `exec` makes the engine the process that is ended later, not a shell around it.
        command[-1] = re.sub(r"^headwater serve", "exec headwater serve", command[-1], flags=re.M)
        with (self._directory / "engine.log").open("wb") as log:
            self._servers.append(
                subprocess.Popen(
                    command,
                    cwd=self._directory,
                    env=self._environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )
        deadline = time.monotonic() + PATIENCE_S
        while READY not in self._log:
            assert self._servers[-1].poll() is None, f"the engine ended:\n{self._log}"
            assert time.monotonic() < deadline, f"the engine is not ready:\n{self._log}"
            time.sleep(0.02)

    @property
    def _log(self) -> str:
        file = self._directory / "engine.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def _environment(self) -> dict[str, str]:
        binaries = str(Path(sys.executable).parent)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
        return {
            **clean,
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "HOME": str(self._directory),
            "XDG_CONFIG_HOME": str(self._directory / ".config"),
            "HEADWATER_PORT": self._port,
            **self._url,
            **self._more,
        }
