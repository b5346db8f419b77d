"""The transcripts that users were promised, command by command, and every name of every command."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from engines import engine
from headwater.cli import ask
from headwater.cli.main import headwater
from headwater.cli.stream.commands import stream
from jetstreams import Shell, rows
from servers import nats_server

ROUNDS = 600
TIMES_PRESSED = 12


def until(shell: Shell, name: str, done: Callable[[Any], bool]) -> Any:
    """Return the info of a stream once it is as wanted."""
    with asyncio.Runner() as runner:
        for _ in range(ROUNDS):
            info = shell.json("stream", "info", name)
            if done(info):
                return info
            runner.run(asyncio.sleep(0.05))
    raise AssertionError(f"{name} never got there: {info}")


@pytest.fixture(params=["nats-server", "headwater"])
def alone(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    """A server of each kind for one test; the engine waits for a replicator that is never started."""
    around: Any
    if request.param == "nats-server":
        around = nats_server(jetstream=True)
    else:
        around = engine(tmp_path / "engine", "--replicator", "submitted")
    with asyncio.Runner() as runner:
        running = runner.run(around.__aenter__())
        try:
            yield Shell(running.client_url, tmp_path / "home", KIND=request.param)
        finally:
            runner.run(around.__aexit__(None, None, None))


def test_orders_returns_archive_and_report(
    alone: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first transcript: two streams, an archive of both, a mirror of it, and reports before and after."""
    for name in ("ORDERS", "RETURNS"):
        alone.ok("s", "add", name, "--subjects", f"{name}.*", "--storage", "memory", "--defaults")
    first = alone.ok("s", "report")
    assert first.startswith("Obtaining Stream stats\n")
    assert [row[:2] for row in rows(first, "Stream Report")[1:]] == [
        ["ORDERS", "Memory"],
        ["RETURNS", "Memory"],
    ]
    assert "Replication Report" not in first

    monkeypatch.setattr(ask, "possible", lambda: True)
    answers = [*[""] * 12, "yes", "0", "", "", "no", "no", "no", "no", "no"]
    added = alone(
        "s", "add", "ARCHIVE", "--source", "ORDERS", "--source", "RETURNS", stdin="\n".join(answers) + "\n"
    )
    assert added.code == 0, added.err
    for question in (
        "Storage backend",
        'Adjust source "ORDERS" start',
        "ORDERS Source Start Sequence",
        "ORDERS Source UTC Time Stamp",
        "ORDERS Source Filter source by subject",
        'Import "ORDERS" from a different JetStream domain',
        'Import "ORDERS" from a different account',
        'Adjust source "RETURNS" start',
    ):
        assert f"? {question}" in added.err
    assert added.out.startswith("Stream ARCHIVE was created\n\nInformation for Stream ARCHIVE created ")
    assert "Sources: ORDERS\n" in added.out

    mirrored = alone("s", "add", "REPORT", "--mirror", "ARCHIVE", stdin="\n" * 14)
    assert mirrored.code == 0, mirrored.err
    assert "? Adjust mirror start" in mirrored.err
    assert "Mirror: ARCHIVE\n" in mirrored.out

    assert "\nSource Information:\n\n" in alone.ok("stream", "info", "ARCHIVE")
    assert "\nMirror Information:\n\n" in alone.ok("stream", "info", "REPORT")
    second = alone.ok("s", "report")
    assert rows(second, "Replication Report")[0] == [
        "Stream",
        "Kind",
        "API Prefix",
        "Source Stream",
        "Filters and Transforms",
        "Active",
        "Lag",
        "Error",
    ]
    assert [[row[0], row[1], row[3]] for row in rows(second, "Replication Report")[1:]] == [
        ["ARCHIVE", "Source", "ORDERS"],
        ["ARCHIVE", "Source", "RETURNS"],
        ["REPORT", "Mirror", "ARCHIVE"],
    ]

    alone.ok("req", "ORDERS.new", "ORDER {{Count}}", "--count", "100")
    alone.ok("req", "RETURNS.new", "RETURN {{Count}}", "--count", "100")
    if alone.environ["KIND"] == "nats-server":
        for name in ("ARCHIVE", "REPORT"):
            until(alone, name, lambda info: info["state"]["messages"] == 200)
    dot = tmp_path / "replication.dot"
    third = alone.ok("s", "report", "--dot", str(dot))
    held = {row[0]: row[4] for row in rows(third, "Stream Report")[1:]}
    copied = "200" if alone.environ["KIND"] == "nats-server" else "0"
    assert held == {"ORDERS": "100", "RETURNS": "100", "ARCHIVE": copied, "REPORT": copied}
    assert 'n1->n3[color="blue",label="Mirror' in dot.read_text()


async def test_cinemas_in_domains_behind_leaf_nodes(tmp_path: Path) -> None:
    """The second transcript: a hub and a spoke, a mirror and a source across domains, and one context."""
    async with nats_server(jetstream="hub", leaf=True) as hub:
        remote = f'leafnodes {{ remotes: [ {{ url: "{hub.leaf_url}" }} ] }}'
        async with nats_server(remote, jetstream="spoke-1"):
            await asyncio.to_thread(_cinemas, Shell("", tmp_path), hub.client_url, tmp_path)


def _cinemas(shell: Shell, url: str, folder: Path) -> None:
    del shell.environ["NATS_URL"]
    contexts = folder / "nats" / "context"
    contexts.mkdir(parents=True)
    (contexts / "hub.json").write_text(json.dumps({"url": url}))
    common = {
        "retention": "limits",
        "max_consumers": -1,
        "storage": "file",
        "discard": "new",
        "num_replicas": 1,
    }
    files: dict[str, dict[str, Any]] = {
        "cinema-a": {"subjects": ["cinema-a.new.films"]},
        "tickets-1": {"subjects": ["tickets-1.>"]},
        "cinema-a-mirror": {
            "mirror": {"name": "cinema-a", "external": {"api": "$JS.hub.API", "deliver": ""}}
        },
        "sales": {"sources": [{"name": "tickets-1", "external": {"api": "$JS.spoke-1.API", "deliver": ""}}]},
    }
    for name, config in files.items():
        (folder / f"{name}.json").write_text(json.dumps({"name": name, **common, **config}))
    domains = {"cinema-a": "hub", "tickets-1": "spoke-1", "cinema-a-mirror": "spoke-1", "sales": "hub"}
    _wait_for_domain(shell, "spoke-1")
    for name, domain in domains.items():
        shell.ok(
            "--context=hub", "str", "add", "--config", str(folder / f"{name}.json"), f"--js-domain={domain}"
        )
    shell.environ["NATS_CONTEXT"] = "hub"
    for name in ("cinema-a-mirror", "sales"):
        _until_heard(shell, name, domains[name])
    report = shell.ok("--context=hub", "str", "report", "--js-domain=spoke-1")
    row = rows(report, "Replication Report")[1]
    assert row[:4] == ["cinema-a-mirror", "Mirror", "$JS.hub.API", "cinema-a"]
    assert (row[5] != "never", row[6], row[7]) == (True, "0", "")
    report = shell.ok("--context=hub", "str", "report", "--js-domain=hub")
    assert rows(report, "Replication Report")[1][:4] == ["sales", "Source", "$JS.spoke-1.API", "tickets-1"]
    assert [row[0] for row in rows(report, "Stream Report")[1:]] == ["cinema-a", "sales"]


def _wait_for_domain(shell: Shell, domain: str) -> None:
    with asyncio.Runner() as runner:
        for _ in range(ROUNDS):
            if shell("--context=hub", "str", "ls", f"--js-domain={domain}").code == 0:
                return
            runner.run(asyncio.sleep(0.05))
    raise AssertionError(f"the domain {domain} never answered")


def _until_heard(shell: Shell, name: str, domain: str) -> None:
    with asyncio.Runner() as runner:
        for _ in range(ROUNDS):
            info = shell.json("stream", "info", name, "--js-domain", domain)
            upstream = info.get("mirror") or info["sources"][0]
            if upstream["active"] > 0 and not upstream.get("error"):
                return
            runner.run(asyncio.sleep(0.05))
    raise AssertionError(f"{name} never heard of its origin: {info}")


def test_a_real_terminal_is_asked(shell: Shell, name: str) -> None:
    """The command runs on a real pseudo-terminal, and the answers are typed."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "headwater", "stream", "add", name],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, **shell.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(slave)
    os.write(master, f"{name}.>\nmemory\n".encode() + b"\n" * 11)
    seen = b""
    try:
        while chunk := _read(master):
            seen += chunk
        process.wait(30)
    finally:
        process.kill()
        os.close(master)
    assert process.returncode == 0, seen
    assert b"? Subjects: " in seen
    assert f"Stream {name} was created".encode() in seen
    assert shell.json("stream", "info", name)["config"]["storage"] == "memory"


def test_on_a_real_terminal_start_filter_domain_and_account_are_asked(shell: Shell, name: str) -> None:
    """Each answer is typed after its question was shown, and is in the right field of the config."""
    answers = {
        f'Adjust source "{name}A" start': "yes",
        f"{name}A Source Start Sequence": "0",
        f"{name}A Source UTC Time Stamp": "2026-01-02 03:04:05",
        f"{name}A Source Filter source by subject": "a.>",
        f'Import "{name}A" from a different JetStream domain': "yes",
        f"{name}A Source foreign JetStream domain name": "hub",
        f'Adjust source "{name}B" start': "yes",
        f"{name}B Source Start Sequence": "7",
        f'Import "{name}B" from a different account': "yes",
        f"{name}B Source foreign account API prefix": "imported.API",
        f"{name}B Source foreign account delivery prefix": "imported.deliver",
    }
    out = typed(shell, ("stream", "add", name, "--source", f"{name}A", "--source", f"{name}B"), answers)
    assert f"Stream {name} was created" in out
    first, second = sorted(
        shell.json("stream", "info", name)["config"]["sources"], key=lambda source: source["name"]
    )
    assert (first["opt_start_time"], first["filter_subject"]) == ("2026-01-02T03:04:05Z", "a.>")
    assert first["external"]["api"] == "$JS.hub.API"
    assert second["opt_start_seq"] == 7
    assert second["external"] == {"api": "imported.API", "deliver": "imported.deliver"}


def test_on_a_real_terminal_a_mirror_is_asked_about_its_origin(shell: Shell, name: str) -> None:
    answers = {
        "Adjust mirror start": "yes",
        "Mirror Start Sequence": "5",
        "Import mirror from a different JetStream domain": "yes",
        "Mirror foreign JetStream domain name": "hub",
    }
    out = typed(shell, ("stream", "add", name, "--mirror", f"{name}A"), answers)
    assert f"Stream {name} was created" in out
    mirror = shell.json("stream", "info", name)["config"]["mirror"]
    assert (mirror["opt_start_seq"], mirror["external"]["api"]) == (5, "$JS.hub.API")


def test_questions_that_are_left_by_ctrl_c_change_nothing(shell: Shell, name: str) -> None:
    process, ours = on_terminal(shell, ("stream", "add", name, "--subjects", f"{name}.>"))
    with process:
        seen = b""
        while b"Discard Policy" not in seen:
            seen += os.read(ours, 4096)
            if seen.endswith(b": ") and b"Discard Policy" not in seen:
                os.write(ours, b"\n")
        out = interrupted(process)
    os.close(ours)
    assert (process.returncode, out) == (130, b"")
    assert shell("stream", "info", name).code == 1


def interrupted(process: subprocess.Popen[bytes]) -> bytes:
    """Return what a command has said that is left by Ctrl-C, pressed again if it was lost.

    Between the words of a question and the wait for its answer Python takes note of a signal, and waits on.
    """
    for _ in range(TIMES_PRESSED):
        process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=5)[0]
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    raise AssertionError("it does not end")


def on_terminal(shell: Shell, arguments: tuple[str, ...]) -> tuple[subprocess.Popen[bytes], int]:
    """Run a command that asks on a terminal and answers in a pipe; return it and the terminal."""
    ours, theirs = pty.openpty()
    environ = {**os.environ, **shell.environ, "TERM": "dumb"}
    process = subprocess.Popen(
        [sys.executable, "-m", "headwater", *arguments],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environ,
    )
    os.close(theirs)
    return process, ours


def typed(shell: Shell, arguments: tuple[str, ...], answers: dict[str, str]) -> str:
    """Answer every question, by default with its default; return the output."""
    process, ours = on_terminal(shell, arguments)
    left = dict(answers)
    with process:
        asked = b""
        while chunk := _read(ours):
            asked += chunk
            question = asked.decode(errors="replace").rpartition("? ")[2]
            if not question.endswith(": "):
                continue
            found = next((begin for begin in left if question.startswith(begin)), None)
            os.write(ours, (left.pop(found) if found else "").encode() + b"\n")
            asked = b""
        out, _ = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == 0, asked
    assert left == {}, f"never asked: {list(left)}"
    return out.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # the other end of a terminal that is closed
        return b""


COMMANDS = [
    *("add", "edit", "copy", "ls", "info", "state", "subjects", "report", "find", "rm", "purge", "rmm"),
    *("view", "get", "gaps", "seal", "backup", "restore", "graph", "cluster", "catch-up", "schema"),
]


def test_all_commands_are_there() -> None:
    assert sorted(stream.commands) == sorted(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_its_aliases_have_help(command: str) -> None:
    others = [alias for alias, name in stream.aliases.items() if name == command]
    for name in (command, *others):
        for group in ("stream", "s", "str", "st"):
            done = CliRunner().invoke(headwater, [group, name, "--help"])
            assert done.exit_code == 0
            assert done.output.startswith(f"Usage: headwater stream {command} ")


def test_every_command_answers_as_json() -> None:
    commands = dict(stream.commands)
    for name, each in stream.commands.items():
        if isinstance(each, click.Group):
            commands |= {f"{name} {inner}": command for inner, command in each.commands.items()}
            del commands[name]
    lacking = [name for name, each in commands.items() if "as_json" not in {p.name for p in each.params}]
    assert lacking == []
