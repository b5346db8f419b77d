"""Declaring, changing and copying streams, on both kinds of server, with flags, files and answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.cli import ask
from headwater.cli.config_editing import differences
from jetstreams import Shell


def test_a_stream_is_created_with_defaults_for_what_is_not_said(shell: Shell, name: str) -> None:
    text = shell.ok("stream", "add", name, "--subjects", f"{name}.>", "--storage", "memory", "--defaults")
    assert text.startswith(f"Stream {name} was created\n\nInformation for Stream {name} created ")
    config = shell.json("stream", "info", name)["config"]
    assert (config["subjects"], config["storage"], config["allow_direct"]) == ([f"{name}.>"], "memory", True)
    assert (config["max_msgs"], config["max_age"], config["duplicate_window"]) == (-1, 0, 120 * 10**9)


def test_creating_it_again_with_another_config_is_refused(shell: Shell, stream: str) -> None:
    ran = shell("stream", "add", stream, "--subjects", f"{stream}.x", "--defaults")
    assert ran.code == 1
    assert "change it with `headwater stream edit`" in ran.err


def test_a_stream_that_takes_nothing_is_refused_before_any_server_is_asked(shell: Shell, name: str) -> None:
    ran = shell("stream", "add", name, "--server", "nats://127.0.0.1:1")
    assert (ran.code, ran.err) == (
        2,
        "headwater: missing subjects: pass --subjects, --source or --mirror\n",
    )


def test_a_stream_without_a_name_is_refused(shell: Shell) -> None:
    ran = shell("stream", "add", "--subjects", "x")
    assert (ran.code, "missing stream name" in ran.err) == (2, True)


def test_a_name_that_no_stream_can_have_is_refused_in_words(shell: Shell) -> None:
    for name in ("a b", "a.b", "a*"):
        ran = shell("stream", "add", name, "--subjects", "x", "--defaults")
        assert (ran.code, f"{name!r} is not a valid stream name" in ran.err) == (2, True)
    assert "a name cannot contain spaces: 'a b'" in shell("stream", "info", "a b").err


def test_a_stream_is_created_from_a_file_and_flags_win_over_it(
    shell: Shell, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "stream.json"
    path.write_text(
        json.dumps({"name": name, "subjects": [f"{name}.*"], "retention": "interest", "discard": "new"})
    )
    created = shell.json("stream", "add", "--config", str(path), "--discard", "old")
    assert created["did_create"] is True
    assert (created["config"]["retention"], created["config"]["discard"]) == ("interest", "old")


def test_a_config_is_written_instead_of_created_and_read_again(
    shell: Shell, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "stream.json"
    shell.ok("stream", "add", name, "--subjects", f"{name}.>", "--defaults", "--output", str(path))
    assert shell("stream", "info", name).code == 1
    assert shell.ok("stream", "add", "--config", str(path), "--validate") == "Configuration is valid\n"
    shell.ok("stream", "add", "--config", str(path))
    assert shell("stream", "info", name).code == 0


def test_an_invalid_config_is_reported_without_a_server(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "stream.json"
    path.write_text('{"name": "X", "max_msgs": "many"}')
    ran = shell("stream", "add", "--config", str(path), "--validate", "--server", "nats://127.0.0.1:1")
    assert (ran.code, "invalid config" in ran.err) == (2, True)


def test_at_a_terminal_what_is_left_open_is_asked(
    shell: Shell, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask, "possible", lambda: True)
    typed = [name, f"{name}.>", "memory", *[""] * 2, "10", *[""] * 8]
    ran = shell("stream", "add", stdin="\n".join(typed) + "\n")
    assert ran.code == 0, ran.err
    assert "? Stream Name" in ran.err
    assert "? Stream Messages Limit [-1]" in ran.err
    config = shell.json("stream", "info", name)["config"]
    assert (config["storage"], config["max_msgs"]) == ("memory", 10)


def test_defaults_ask_nothing_even_at_a_terminal(
    shell: Shell, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask, "possible", lambda: True)
    assert shell("stream", "add", name, "--subjects", f"{name}.>", "--defaults").err == ""


def test_an_edit_shows_what_changes_and_changes_it(shell: Shell, stream: str) -> None:
    before = shell("stream", "edit", stream, "--max-msgs", "9", "--dry-run")
    assert before.out == 'Differences (-old +new):\n-  "max_msgs": -1,\n+  "max_msgs": 9,\n'
    assert before.code == 1
    assert shell.json("stream", "info", stream)["config"]["max_msgs"] == -1
    text = shell.ok("stream", "update", stream, "--max-msgs", "9", "--force")
    assert f"Stream {stream} was updated" in text
    assert shell.json("stream", "info", stream)["config"]["max_msgs"] == 9
    assert shell.ok("stream", "edit", stream, "--max-msgs", "9", "-f") == "No difference in configuration\n"
    assert shell.ok("stream", "edit", stream, "--max-msgs", "9", "--dry-run") == ""


def test_an_edit_without_a_terminal_wants_force(shell: Shell, stream: str) -> None:
    assert shell("stream", "edit", stream, "--max-msgs", "9").code == 2
    assert shell.json("stream", "info", stream)["config"]["max_msgs"] == -1


def test_what_an_edit_removes_is_gone(shell: Shell, name: str) -> None:
    source = ["--transform-source", f"{name}.>", "--transform-destination", f"{name}.x.>"]
    shell.ok("stream", "add", name, "--subjects", f"{name}.>", "--defaults", *source)
    assert "subject_transform" in shell.json("stream", "info", name)["config"]
    shell.ok("stream", "edit", name, "--no-transform", "-f")
    assert "subject_transform" not in shell.json("stream", "info", name)["config"]


def test_an_editor_changes_the_config(shell: Shell, stream: str, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i \'s/"max_msgs": -1/"max_msgs": 77/\' "$1"\n')
    editor.chmod(0o755)
    shell.ok("stream", "edit", stream, "-i", "-f", VISUAL=str(editor))
    assert shell.json("stream", "info", stream)["config"]["max_msgs"] == 77


def test_a_copy_has_the_config_and_not_the_messages(shell: Shell, stream: str) -> None:
    shell.ok("stream", "edit", stream, "--max-msgs", "50", "--metadata", "owner=me", "-f")
    copied = shell.json("stream", "cp", stream, f"{stream}-COPY", "--subjects", f"{stream}-COPY.>")
    assert (copied["config"]["max_msgs"], copied["config"]["metadata"]["owner"]) == (50, "me")
    assert copied["state"]["messages"] == 0


def test_differences_name_what_goes_and_what_comes() -> None:
    text = differences({"name": "X", "max_msgs": 1}, {"name": "X", "max_msgs": 2})
    assert str(text).splitlines() == ["Differences (-old +new):", '-  "max_msgs": 1,', '+  "max_msgs": 2,']
    assert not differences({"name": "X"}, {"name": "X"})
