"""A plain nats-server and a Headwater engine for tests of the command line, and a way to run its commands."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click.testing
import msgspec

from engines import engine
from headwater.cli.main import main
from servers import nats_server

KINDS = ("nats-server", "headwater")
UNSET = ("NATS_", "HEADWATER_", "COLUMNS")


class Ran(NamedTuple):
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return what it wrote as JSON."""
        return msgspec.json.decode(self.out)


class Shell:
    """Runs commands in this process, against one server, with no context of the user in sight."""

    def __init__(self, url: str, home: Path, **environ: str) -> None:
        self.url = url
        self.home = home
        # No command gives up on a busy machine.
        patient = {"NATS_TIMEOUT": "60s"}
        self.environ = patient | {"NATS_URL": url, "XDG_CONFIG_HOME": str(home), **environ}

    def __call__(self, *arguments: str, stdin: str | bytes = "", **environ: str) -> Ran:
        """Run a command whatever its exit code."""
        unset = [name for name in os.environ if name.startswith(UNSET)]
        clean = {**dict.fromkeys(unset), **self.environ, **environ}
        with click.testing.CliRunner().isolation(stdin, env=clean) as (out, err, _):
            code = _left(list(arguments))
            sys.stdout.flush()
            sys.stderr.flush()
            return Ran(code, out.getvalue().decode(), err.getvalue().decode())

    def ok(self, *arguments: str, stdin: str | bytes = "", **environ: str) -> str:
        """Run a command that must succeed, and return what it wrote."""
        ran = self(*arguments, stdin=stdin, **environ)
        assert ran.code == 0, f"{arguments}: {ran.err}{ran.out}"
        return ran.out

    def json(self, *arguments: str, **environ: str) -> Any:
        """Run a command that must succeed and answers as JSON."""
        return msgspec.json.decode(self.ok(*arguments, "--json", **environ))

    @contextmanager
    def beside(self, ready: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Run a command in a process of its own, once it has said on standard error that it is ready."""
        command = [sys.executable, "-m", "headwater", *arguments]
        clean = {key: value for key, value in os.environ.items() if not key.startswith(UNSET)}
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, env={**clean, **self.environ}, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        ) as process:
            try:
                assert process.stderr is not None
                while ready not in (line := process.stderr.readline()):
                    assert line, f"{arguments} ended with {process.wait()}"
                yield process
            finally:
                process.kill()


@contextmanager
def jetstream(kind: str, directory: Path) -> Iterator[Shell]:
    """Run a server of one kind; its processes need no event loop of ours while commands run."""
    directory.mkdir(parents=True, exist_ok=True)
    with asyncio.Runner() as runner:
        around: Any = nats_server(jetstream=True) if kind == "nats-server" else engine(directory / "engine")
        running = runner.run(around.__aenter__())
        try:
            yield Shell(running.client_url, directory / "home")
        finally:
            runner.run(around.__aexit__(None, None, None))


def rows(text: str, title: str) -> list[list[str]]:
    """Return the cells of a table in a report."""
    lines = text[text.index(title) :].splitlines()
    end = next(place for place, line in enumerate(lines) if line.startswith("╰"))
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines[2:end] if line[0] == "│"]


def _left(arguments: list[str]) -> int:
    try:
        main(arguments)
    except SystemExit as left:
        return int(left.code or 0)
