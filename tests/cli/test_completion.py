"""Shell completion: what Tab offers for each kind of name, on real servers and without any."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from headwater.cli.completion import what_is_named
from headwater.cli.main import headwater
from jetstreams import Shell


def offered(shell: Shell, line: str) -> list[str]:
    """Return what Tab offers at the end of a line, as bash asks for it."""
    words = shlex.split(line) + ([""] if line.endswith(" ") else [])
    environ = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_HEADWATER_COMPLETE": "bash_complete"}
    return [item.split(",", 1)[1] for item in shell(**environ).out.splitlines() if item]


@pytest.fixture
def away(tmp_path: Path) -> Shell:
    """Commands of a user without contexts, and a server that is not there."""
    return Shell("nats://127.0.0.1:1", tmp_path)


def test_commands_and_flags_are_completed(away: Shell) -> None:
    assert offered(away, "headwater cons") == ["console", "consumer"]
    assert offered(away, "headwater stream rep") == ["report"]
    assert offered(away, "headwater consumer add S C --max-del") == ["--max-deliver"]
    assert offered(away, "headwater check stream X --format n") == ["nagios"]


def test_contexts_are_completed_without_a_server(away: Shell) -> None:
    away.ok("context", "add", "hub")
    away.ok("context", "add", "home")
    assert offered(away, "headwater context select h") == ["home", "hub"]
    assert offered(away, "headwater stream ls --context hu") == ["hub"]
    assert offered(away, "headwater --context ho") == ["home"]


def test_without_a_server_nothing_is_offered_or_printed(away: Shell) -> None:
    assert offered(away, "headwater stream info ") == []


@pytest.mark.parametrize(
    "line",
    ["stream info {0}", "s rm {0}", "consumer ls {0}", "check stream {0}", "sub --stream {0}",
     "stream copy {0}", "stream add NEW --mirror {0}", "stream add NEW --source {0}"],
)  # fmt: skip
def test_streams_are_completed(shell: Shell, stream: str, line: str) -> None:
    assert stream in offered(shell, "headwater " + line.format(stream[:-1]))


def test_the_name_of_a_new_stream_is_not_completed(shell: Shell, stream: str) -> None:
    assert offered(shell, f"headwater stream add {stream[:-1]}") == []


def test_consumers_of_the_stream_before_are_completed(shell: Shell, stream: str, away: Shell) -> None:
    for name in ("WORK", "WATCH"):
        shell.ok("consumer", "add", stream, name, "--pull")
    assert offered(shell, f"headwater consumer info {stream} W") == ["WATCH", "WORK"]
    assert offered(shell, f"headwater sub --stream {stream} --durable WO") == ["WORK"]
    assert offered(away, f"headwater -s {shell.url} consumer next {stream} WA") == ["WATCH"]
    assert offered(away, f"headwater c next -s {shell.url} {stream} WA") == ["WATCH"]
    assert offered(shell, "headwater sub --durable W") == []


@pytest.mark.parametrize(
    ("name", "word"), [("bash", "complete -o"), ("zsh", "compdef"), ("fish", "complete ")]
)
def test_the_script_of_each_shell_is_printed(away: Shell, name: str, word: str) -> None:
    out = away.ok("completion", name)
    assert word in out
    assert "_HEADWATER_COMPLETE" in out


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here")
def test_bash_takes_the_script(away: Shell, tmp_path: Path) -> None:
    command = tmp_path / "headwater"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m headwater "$@"\n')
    command.chmod(0o755)
    script = f"""{away.ok("completion", "bash")}
COMP_WORDS=(headwater str) COMP_CWORD=1
_headwater_completion headwater str headwater
echo "${{COMPREPLY[@]}}"
"""
    environ = {**os.environ, **away.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["stream"]


def test_every_stream_and_consumer_argument_is_known() -> None:
    missed = []
    for group in ("stream", "consumer"):
        commands = headwater.commands[group]
        assert isinstance(commands, click.Group)
        for name, command in commands.commands.items():
            first = next((p for p in command.params if isinstance(p, click.Argument)), None)
            if first is not None and not what_is_named(first, (group, name)):
                missed.append(f"{group} {name}")
    assert missed == ["stream add", "stream restore", "stream cluster"]
