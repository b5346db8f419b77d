"""`headwater context`: what each command writes and shows, and that contexts decide where commands go."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.cli.context_commands import context, context_rows, contexts_sheet
from headwater.cli.contexts import ContextFolder, SavedContext
from headwater.cli.render import console
from jetstreams import Shell


def test_every_command_shows_examples() -> None:
    for name, command in context.commands.items():
        assert f"headwater context {name}" in (command.epilog or "")


@pytest.fixture
def away(tmp_path: Path) -> Shell:
    """Commands of a user without contexts, and no server named."""
    shell = Shell("", tmp_path)
    del shell.environ["NATS_URL"]
    return shell


def held(shell: Shell, name: str) -> dict[str, object]:
    """Return what a context's file says."""
    content = json.loads((shell.home / "nats" / "context" / f"{name}.json").read_text())
    return {key: value for key, value in content.items() if value}


def test_a_context_is_created_and_changed_by_parts(away: Shell) -> None:
    flags = ("--server", "nats://hub:4222", "--description", "the hub", "--js-domain", "lake", "--tlsfirst")
    away.ok("context", "add", "hub", *flags, "--select")
    expected: dict[str, object] = {
        "url": "nats://hub:4222", "description": "the hub", "jetstream_domain": "lake", "tls_first": True
    }  # fmt: skip
    assert held(away, "hub") == expected
    away.ok("ctx", "save", "hub", "--user", "bob", "--password", "s3cret")
    assert held(away, "hub") == {**expected, "user": "bob", "password": "s3cret"}
    assert (away.home / "nats" / "context.txt").read_text() == "hub"


def test_a_user_without_a_password_is_a_token(away: Shell) -> None:
    away.ok("context", "add", "t", "--user", "t0ken")
    assert held(away, "t") == {"token": "t0ken"}


def test_flags_before_the_command_and_variables_count_as_well(away: Shell) -> None:
    away.ok("--js-domain", "lake", "context", "add", "x", NATS_URL="nats://env:4222")
    assert held(away, "x") == {"url": "nats://env:4222", "jetstream_domain": "lake"}


def test_a_context_may_begin_as_another(away: Shell) -> None:
    away.ok("context", "add", "hub", "--server", "nats://hub:4222", "--user", "bob", "--password", "x")
    away.ok("context", "add", "lake", "--context", "hub", "--js-domain", "lake")
    away.ok("context", "cp", "hub", "spoke", "--server", "nats://spoke:4222", NATS_USER="other")
    assert held(away, "lake") == {**held(away, "hub"), "jetstream_domain": "lake"}
    assert held(away, "spoke") == {**held(away, "hub"), "url": "nats://spoke:4222"}
    ran = away("context", "copy", "hub", "spoke")
    assert (ran.code, "exists already" in ran.err) == (1, True)


def test_contexts_are_selected_unselected_and_gone_back_to(away: Shell) -> None:
    for name in ("a", "b"):
        away.ok("context", "add", name, "--description", name)
        away.ok("context", "select", name)
    assert away.ok("context", "ls", "--names") == "a\nb\n"
    assert '"a"' in away.ok("context", "-")
    assert away.json("context", "info")["name"] == "a"
    assert away.json("context", "info", NATS_CONTEXT="b")["description"] == "b"
    assert away.ok("context", "unselect") == 'Unselected the "a" context\n'
    assert away.ok("context", "unselect") == "No context currently selected\n"
    assert [each["name"] for each in away.json("context", "ls")] == ["a", "b"]
    assert away("context", "info").code == 2
    assert away("context", "select").code == 2


def test_the_selected_context_is_not_removed_by_mistake(away: Shell) -> None:
    away.ok("context", "add", "hub", "--select")
    assert "is selected: select another" in away("context", "rm", "hub").err
    away.ok("context", "add", "other")
    assert "pass --force" in away("context", "rm", "other").err
    away.ok("context", "rm", "hub", "--force")
    assert away.ok("context", "ls", "--names") == "other\n"
    assert away.ok("context", "rm", "other", "-f") == ""
    assert away.ok("context", "ls") == "No known contexts\n"
    assert 'there is no context "other"' in away("context", "rm", "other", "-f").err


def test_an_editor_changes_a_context_or_leaves_it(away: Shell, tmp_path: Path) -> None:
    away.ok("context", "add", "hub", "--server", "nats://hub:4222")
    editor = tmp_path / "editor.sh"
    editor.write_text("#!/bin/sh\nsleep 0.01; sed -i 's/hub/spoke/; ' \"$1\"; touch -d '+2 seconds' \"$1\"\n")
    editor.chmod(0o755)
    away.ok("context", "edit", "hub", EDITOR=str(editor), VISUAL=str(editor))
    assert held(away, "hub") == {"url": "nats://spoke:4222"}
    editor.write_text("#!/bin/sh\necho '{' > \"$1\"; touch -d '+2 seconds' \"$1\"\n")
    ran = away("context", "edit", "hub", EDITOR=str(editor), VISUAL=str(editor))
    assert (ran.code, "nothing was changed" in ran.err) == (1, True)
    assert held(away, "hub") == {"url": "nats://spoke:4222"}


GOLDEN_LIST = """\
╭─────────────────────────────────────────╮
│              Known Contexts             │
├───────┬─────────────┬───────────────────┤
│ Name  │ Description │ Server            │
├───────┼─────────────┼───────────────────┤
│ hub*  │ the hub     │ nats://hub:4222   │
│ spoke │ far from it │ nats://spoke:4222 │
╰───────┴─────────────┴───────────────────╯
"""
GOLDEN_INFO = """\
NATS Configuration Context "hub"

 Description: the hub
 Server URLs: nats://hub:4222
    Username: bob
    Password: *********
          CA: /no/such/ca.pem (ERROR: not found)
   TLS First: true
   JS Domain: lake
        Path: {path}
"""


@pytest.fixture
def folder(tmp_path: Path) -> ContextFolder:
    folder = ContextFolder(tmp_path)
    hub = SavedContext(
        description="the hub", url="nats://hub:4222", user="bob", password="s3cret", ca="/no/such/ca.pem",
        tls_first=True, jetstream_domain="lake",
    )  # fmt: skip
    folder.save("hub", hub)
    folder.save("spoke", SavedContext(description="far from it", url="nats://spoke:4222"))
    folder.select("hub")
    return folder


def rendered(item: object, width: int, capsys: pytest.CaptureFixture[str]) -> str:
    console(width=width).print(item)
    return "".join(line.rstrip() + "\n" for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("width", [80, 120])
def test_the_list_of_contexts(folder: ContextFolder, width: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert rendered(contexts_sheet(folder), width, capsys) == GOLDEN_LIST


def test_what_a_context_says_without_its_secrets(
    folder: ContextFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = rendered(context_rows(folder, "hub"), 500, capsys)
    assert shown == GOLDEN_INFO.format(path=folder.path("hub"))
    assert "\x1b" not in shown


def test_a_damaged_context_does_not_hide_the_others(
    folder: ContextFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.path("bad").write_text("{")
    shown = rendered(contexts_sheet(folder), 500, capsys)
    assert "is not a JSON object" in shown
    assert "far from it" in shown


def test_a_context_says_where_commands_go(shell: Shell, stream: str, tmp_path: Path) -> None:
    away = Shell("", tmp_path)
    del away.environ["NATS_URL"]
    away.ok("context", "add", "here", "--server", shell.url)
    away.ok("context", "add", "nowhere", "--server", "nats://127.0.0.1:1", "--select")
    assert stream in away.ok("stream", "ls", "--names", "--context", "here")
    assert stream in away.ok("--context", "here", "stream", "ls", "--names")
    assert stream in away.ok("stream", "ls", "--names", NATS_CONTEXT="here")
    assert stream in away.ok("stream", "ls", "--names", "--no-context", "-s", shell.url)
    assert "cannot connect to nats://127.0.0.1:1" in away("stream", "ls").err
    assert away.ok("context", "info", "here", "--connect").endswith("Connected\n")
    assert away("context", "info", "--connect").code == 1
    assert 'there is no context "gone"' in away("stream", "ls", "--context", "gone").err


def test_contexts_are_validated_one_or_all(shell: Shell, away: Shell, tmp_path: Path) -> None:
    away.ok("context", "add", "good", "--server", shell.url)
    assert away.ok("context", "validate") == "good: OK\n"
    assert away.ok("context", "validate", "good", "--connect") == "good: OK\n"
    away.ok("context", "add", "files", "--creds", str(tmp_path / "no.creds"))
    (away.home / "nats" / "context" / "torn.json").write_text("{")
    ran = away("context", "validate")
    assert ran.code == 1
    assert "good: OK\n" in ran.out
    assert "no.creds does not exist" in ran.out.replace("\n", "")
    assert "2 of 3 contexts are invalid: files, torn" in ran.err
