"""The code blocks of a page, run as a reader would run them: in order, in an empty directory.

Blocks marked `sh` and `python` are run; all others are shown only. A block that starts an engine runs until
the page ends.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from headwater.bus.embedded import free_port

READY = "headwater is ready"
PATIENCE_S = 300.0
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
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


class Reader:
    """Somebody who types what a page says."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = str(free_port())
        self._servers: list[subprocess.Popen[bytes]] = []

    def follow(self, page: Path) -> str:
        """Run the blocks of a page; return what they printed. Fail at the first one that fails."""
        try:
            return "".join(self._run(block) for block in blocks(page))
        finally:
            for server in self._servers:
                server.terminate()
                server.wait(60)

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
            "HEADWATER_PORT": self._port,
            "NATS_URL": f"nats://127.0.0.1:{self._port}",
        }
