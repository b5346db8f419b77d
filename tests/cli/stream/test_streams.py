"""Listing, looking at, sealing and removing streams, on both kinds of server."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from golden import assert_golden
from headwater.cli import ask
from headwater.cli.render import console, show
from headwater.cli.stream.streams import list_sheet, subjects_sheet, visible
from headwater.model.times import parse_time
from jetstreams import Shell
from stream_infos import ARCHIVE, FRESH, SALES, Json, info

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("width", [80, 120, None])
def test_the_list_looks_as_agreed(width: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    now = parse_time("2026-01-02T03:05:12Z")
    assert now is not None
    dated: list[Json] = [{**each, "created": "0001-01-01T00:00:00Z"} for each in (SALES, ARCHIVE, FRESH)]
    out = io.StringIO()
    show(list_sheet(dated, now), to=console(out, width))
    assert_golden(GOLDEN, f"list_{width or 'piped'}", out.getvalue())


@pytest.mark.parametrize("width", [80, 120, None])
def test_the_subjects_look_as_agreed(width: int | None) -> None:
    counts = [(f"orders.{place:02d}.new", place * 1000) for place in range(7)]
    out = io.StringIO()
    show(subjects_sheet("ORDERS", counts, width or 10_000), to=console(out, width))
    assert_golden(GOLDEN, f"subjects_{width or 'piped'}", out.getvalue())


def test_streams_of_other_tools_are_left_out_unless_asked_for() -> None:
    infos = [info("KV_settings"), info("OBJ_files"), info("ORDERS")]
    assert [each["config"]["name"] for each in visible(infos, False)] == ["ORDERS"]
    assert visible(infos, True) == infos


def test_a_stream_is_listed_by_name_as_table_and_as_json(shell: Shell, stream: str) -> None:
    assert stream in shell.ok("stream", "ls", "--names").splitlines()
    assert f"│ {stream} " in shell.ok("s", "list")
    assert stream in [each["config"]["name"] for each in shell.json("str", "ls")]
    assert stream in shell.json("st", "ls", "-n")


def test_streams_are_listed_by_the_subject_they_take(shell: Shell, stream: str) -> None:
    assert shell.ok("stream", "ls", "-n", "--subject", f"{stream}.a") == f"{stream}\n"
    assert shell.ok("stream", "ls", "--subject", "nobody.takes.this").startswith("No Streams defined")


def test_info_and_state_of_a_stream_are_shown(shell: Shell, stream: str) -> None:
    text = shell.ok("stream", "info", stream)
    assert text.startswith(f"Information for Stream {stream} created ")
    assert f"Subjects: {stream}.>\n" in text
    assert "Messages: 3\n" in text
    assert shell.json("stream", "info", stream)["state"]["messages"] == 3
    assert shell.json("stream", "state", stream)["messages"] == 3
    assert shell.ok("stream", "state", stream).startswith(f"State for Stream {stream} created ")
    assert "Options:" not in shell.ok("stream", "info", stream, "--state")


def test_the_subjects_of_a_stream_are_counted(shell: Shell, stream: str) -> None:
    counts = {f"{stream}.{token}": 1 for token in "abc"}
    assert shell.json("stream", "subjects", stream) == counts
    assert shell.json("stream", "subjects", stream, f"{stream}.a") == {f"{stream}.a": 1}
    names = shell.ok("stream", "subjects", stream, "--names", "--sort", "name", "-R").splitlines()
    assert names == sorted(counts, reverse=True)
    assert f"3 Subjects in stream {stream}" in shell.ok("stream", "subjects", stream)
    assert shell.ok("stream", "subjects", stream, "x") == "No subjects found matching x\n"


def test_a_stream_that_does_not_exist_is_one_sentence(shell: Shell) -> None:
    ran = shell("stream", "info", "NOPE")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("headwater: stream not found (10059): `headwater stream ls` lists")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("command", [["info"], ["state", "--no-select"], ["rm", "-f"], ["subjects"]])
def test_without_a_name_and_a_terminal_the_name_is_asked_for(shell: Shell, command: list[str]) -> None:
    ran = shell("stream", *command)
    assert ran.code == 2
    assert ran.err.startswith("headwater: missing stream name")


def test_at_a_terminal_a_stream_can_be_picked(
    shell: Shell, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask, "possible", lambda: True)
    ran = shell("stream", "state", stdin=f"{stream}\n")
    assert f"State for Stream {stream}" in ran.out
    assert "Select a stream" in ran.err


def test_a_stream_is_removed_only_after_confirmation(
    shell: Shell, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = shell("stream", "rm", stream)
    assert (refused.code, refused.err.count("--force")) == (2, 1)
    monkeypatch.setattr(ask, "possible", lambda: True)
    assert "nothing was changed" in shell("stream", "rm", stream, stdin="n\n").err
    assert shell("stream", "info", stream).code == 0
    assert shell.ok("stream", "rm", stream, stdin="y\n") == ""
    assert shell("stream", "info", stream).code == 1


def test_a_sealed_stream_takes_nothing_any_more(shell: Shell, stream: str) -> None:
    assert "Sealed: true" in shell.ok("stream", "seal", stream, "--force")
    assert "sealed" in shell("stream", "purge", stream, "-f").err
    assert shell.json("stream", "info", stream)["config"]["sealed"] is True
