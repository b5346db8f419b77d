"""The environment of the demo: an engine with a temporary store, and commands that are shown as they run."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from headwater.bus.free_port import free_port

WAIT_S = 120.0
console = Console(highlight=False, soft_wrap=True)


class DemoError(Exception):
    """The demo cannot continue; the message says why."""


def heading(number: int, text: str) -> None:
    """Print the heading of a step."""
    console.print(f"\n[bold cyan]{number}. {text}[/]\n")


def say(text: str) -> None:
    """Print an explanation."""
    console.print(text)


def proven(text: str) -> None:
    """Print what was just verified."""
    console.print(f"[bold green]✓[/] {text}")


class Stage:
    """An engine on a store, and the commands that connect to it."""

    def __init__(self, directory: Path, port: int = 0, store: Path | None = None) -> None:
        self.directory = directory
        self.store = store or directory / "store"
        self.port = port or free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self.log_file = directory / "engine.log"
        self._engine: subprocess.Popen[str] | None = None
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
        self._environ = {
            **clean,
            "NATS_URL": self.url,
            # A busy machine may take longer to answer than the default of five seconds.
            "NATS_TIMEOUT": "60s",
            # No context of the user: the demo connects to its own engine.
            "XDG_CONFIG_HOME": str(directory / "config"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{clean.get('PATH', '')}",
        }

    @property
    def pid(self) -> int:
        """Return the engine's process id."""
        assert self._engine is not None
        return self._engine.pid

    def start(self, *options: str) -> None:
        """Start the engine and return once it serves."""
        command = ["serve", "--store", str(self.store), "--port", str(self.port), *options]
        console.print(f"[dim]$[/] [bold]headwater {shlex.join(command)} &[/]")
        begins = len(self.log)
        with self.log_file.open("a") as log:
            self._engine = subprocess.Popen(
                [sys.executable, "-m", "headwater", *command],
                env=self._environ,
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                text=True,
            )
        assert self._engine.stdout is not None
        ready = self._engine.stdout.readline().strip()
        if not ready:
            raise DemoError(f"the engine did not start:\n{self.log[begins:]}")
        say(ready)

    def kill(self) -> None:
        """End the engine as a power cut would: it cannot clean up."""
        assert self._engine is not None
        console.print(f"[dim]$[/] [bold]kill -9 {self.pid}[/]")
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the engine in an orderly way, if it runs."""
        if self._engine is not None and self._engine.poll() is None:
            self._end(signal.SIGTERM)

    def wait(self) -> int:
        """Return the engine's exit code once it ends by itself."""
        assert self._engine is not None
        return self._engine.wait()

    def _end(self, how: signal.Signals) -> None:
        assert self._engine is not None
        self._engine.send_signal(how)
        self._engine.wait(60)

    @property
    def log(self) -> str:
        """Return the engine's log."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def run(self, *arguments: str, show: Callable[[str], str] | None = None) -> None:
        """Show a command and what it writes, or an extract of that."""
        console.print(f"[dim]$[/] [bold]headwater {shlex.join(arguments)}[/]")
        sys.stdout.flush()
        if show is None:
            code = subprocess.run(
                [sys.executable, "-m", "headwater", *arguments], env=self._environ
            ).returncode
        else:
            code, out = self._captured(*arguments)
            console.print(show(out), markup=False)
        if code:
            raise DemoError(f"that command left with exit code {code}; the engine said:\n{self.log}")

    def ask(self, *arguments: str) -> Any:
        """Run a command unseen and return its JSON."""
        code, out = self._captured(*arguments, "--json")
        if code:
            raise DemoError(f"headwater {shlex.join(arguments)} left with exit code {code}:\n{out}")
        return json.loads(out)

    def lines(self, *arguments: str) -> list[Any]:
        """Run a command unseen and return its JSON, an object a line."""
        code, out = self._captured(*arguments, "--json")
        if code:
            raise DemoError(f"headwater {shlex.join(arguments)} left with exit code {code}:\n{out}")
        return [json.loads(line) for line in out.splitlines()]

    def wait_for(self, what: str, stream: str, last_seq: int) -> None:
        """Return once a stream has reached a sequence, and print how long that took."""
        began = time.monotonic()
        while (seq := self.ask("stream", "state", stream)["last_seq"]) < last_seq:
            if time.monotonic() - began > WAIT_S:
                raise DemoError(
                    f"{stream} is at {seq} and should be at {last_seq}; the engine said:\n{self.log}"
                )
            time.sleep(0.3)
        say(f"{what} [dim]({time.monotonic() - began:.0f} s)[/]")

    def _captured(self, *arguments: str) -> tuple[int, str]:
        ran = subprocess.run(
            [sys.executable, "-m", "headwater", *arguments], env=self._environ, capture_output=True, text=True
        )
        return ran.returncode, ran.stdout + (ran.stderr if ran.returncode else "")
