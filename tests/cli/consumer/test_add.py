"""`consumer add`, `edit` and `copy` against real servers."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from jetstreams import Shell


def test_a_consumer_is_made_from_flags_and_shown(shell: Shell, stream: str) -> None:
    flags = ("--pull", "--defaults", "--filter", f"{stream}.a", "--max-deliver", "5", "--metadata", "k=v")
    out = shell.ok("consumer", "add", stream, "WORK", *flags, "--description", "the workers")
    assert out.startswith(f"Information for Consumer {stream} > WORK created ")
    config = shell.json("consumer", "info", stream, "WORK")["config"]
    assert (config["durable_name"], config["ack_policy"], config["max_deliver"]) == ("WORK", "explicit", 5)
    assert (config["filter_subject"], config["description"]) == (f"{stream}.a", "the workers")
    assert config["metadata"]["k"] == "v"


def test_without_a_terminal_nothing_is_asked(shell: Shell, stream: str) -> None:
    assert shell.json("c", "new", stream, "WORK")["config"]["ack_policy"] == "explicit"
    ran = shell("c", "add", stream)
    assert (ran.code, "missing consumer name" in ran.err) == (2, True)
    assert shell("c", "add").code == 2


def test_an_ephemeral_consumer_needs_no_name(shell: Shell, stream: str) -> None:
    info = shell.json("consumer", "add", stream, "--ephemeral", "--pull", "--defaults")
    assert "durable_name" not in info["config"]
    assert info["name"] in shell.json("consumer", "ls", stream, "--names")


def test_a_pushing_consumer_takes_its_flags(shell: Shell, stream: str) -> None:
    flags = (
        "--target",
        f"to.{stream}",
        "--heartbeat",
        "5s",
        "--flow-control",
        "--deliver",
        "2",
        "--ack",
        "all",
    )
    config = shell.json("consumer", "add", stream, "PUSH", *flags)["config"]
    assert config["deliver_subject"] == f"to.{stream}"
    assert (config["opt_start_seq"], config["flow_control"], config["ack_policy"]) == (2, True, "all")


def test_an_existing_consumer_is_not_changed_by_adding(shell: Shell, stream: str) -> None:
    shell.ok("consumer", "add", stream, "WORK", "--pull")
    ran = shell("consumer", "add", stream, "WORK", "--pull", "--max-deliver", "7")
    assert (ran.code, ran.out) == (1, "")
    assert "consumer already exists (10148)" in ran.err
    assert shell.json("consumer", "info", stream, "WORK")["config"].get("max_deliver", -1) == -1


def test_a_config_goes_to_a_file_and_comes_from_one(shell: Shell, stream: str, tmp_path: Path) -> None:
    file = tmp_path / "work.json"
    flags = ("--pull", "--wait", "10s", "--defaults")
    shell.ok("consumer", "add", stream, "WORK", *flags, "--output", str(file))
    assert shell.json("consumer", "ls", stream, "--names") == []
    assert json.loads(file.read_text())["ack_wait"] == 10_000_000_000
    assert (
        shell.ok("consumer", "add", stream, "--config", str(file), "--validate") == "Configuration is valid\n"
    )
    shell.ok("consumer", "add", stream, "--config", str(file))
    info = tmp_path / "info.json"
    info.write_text(shell.ok("consumer", "info", stream, "WORK", "--json"))
    shell.ok("consumer", "add", stream, "OTHER", "--config", str(info), "--description", "like WORK")
    other = shell.json("consumer", "info", stream, "OTHER")["config"]
    assert (other["durable_name"], other["ack_wait"]) == ("OTHER", 10_000_000_000)


def test_an_edit_shows_the_difference_and_needs_force_without_a_terminal(shell: Shell, stream: str) -> None:
    shell.ok("consumer", "add", stream, "WORK", "--pull")
    edit = ("consumer", "edit", stream, "WORK", "--description", "new")
    ran = shell(*edit, "--dry-run")
    assert (ran.code, '+  "description": "new",' in ran.out) == (1, True)
    ran = shell(*edit)
    assert (ran.code, "pass --force" in ran.err) == (2, True)
    assert "Description: new" in shell.ok(*edit, "--force")
    assert shell.ok(*edit, "--force") == "No difference in configuration\n"
    assert shell.ok(*edit, "--dry-run") == ""


def test_what_cannot_be_changed_is_said_by_the_server(shell: Shell, stream: str, tmp_path: Path) -> None:
    shell.ok("consumer", "add", stream, "WORK", "--pull")
    config = shell.json("consumer", "info", stream, "WORK")["config"]
    file = tmp_path / "work.json"
    file.write_text(json.dumps({**config, "ack_policy": "all"}))
    ran = shell("consumer", "edit", stream, "WORK", "--config", str(file), "--force")
    assert (ran.code, "ack policy can not be updated (10012)" in ran.err) == (1, True)


def test_a_copy_starts_over_with_the_same_config(shell: Shell, stream: str) -> None:
    shell.ok("consumer", "add", stream, "WORK", "--pull", "--max-deliver", "3", "--metadata", "k=v")
    shell.ok("consumer", "next", stream, "WORK")
    info = shell.json("consumer", "copy", stream, "WORK", "WORK2", "--max-deliver", "4")
    assert (info["name"], info["num_pending"]) == ("WORK2", 3)
    assert (info["config"]["max_deliver"], info["config"]["metadata"]["k"]) == (4, "v")
    pushing = shell.json("consumer", "cp", stream, "WORK", "PUSH", "--target", f"to.{stream}")
    assert pushing["config"]["deliver_subject"] == f"to.{stream}"
    pulling = shell.json("consumer", "cp", stream, "PUSH", "PULL")
    assert "deliver_subject" not in pulling["config"]


@pytest.mark.parametrize(
    "flag", [("--bps", "1"), ("--heartbeat", "1s"), ("--flow-control",), ("--deliver-group", "g")]
)
def test_what_only_pushing_consumers_have_is_refused_for_others(shell: Shell, flag: tuple[str, ...]) -> None:
    ran = shell("consumer", "add", "ANY", "C", "--pull", *flag)
    assert (ran.code, f"{flag[0]} needs a push consumer: pass --target" in ran.err) == (2, True)


def test_on_a_terminal_what_is_missing_is_asked(shell: Shell, stream: str) -> None:
    answers = ["a.b", "WORK", "", "", "", "", f"{stream}.a", "5", "", "", ""]
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "headwater", "consumer", "add", stream]
    environ = {**os.environ, **shell.environ, "TERM": "dumb"}
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, env=environ
    ) as process:
        os.close(theirs)
        seen = b""
        for answer in answers:
            before = len(seen)
            while not seen[before:].rstrip().endswith(b":"):
                seen += os.read(ours, 4096)
            os.write(ours, answer.encode() + b"\n")
        out, _ = process.communicate(timeout=60)
        os.close(ours)
    assert process.returncode == 0
    assert b"? Consumer name: " in seen
    assert f"Information for Consumer {stream} > WORK created" in out.decode()
    config = shell.json("consumer", "info", stream, "WORK")["config"]
    assert (config["filter_subject"], config["max_deliver"]) == (f"{stream}.a", 5)
