"""Reports about a stream: of a server of either kind, and of a store without one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jetstreams import Shell
from lake.stores import ORDERS, lake


def test_reports_of_a_stream_of_a_server(shell: Shell, stream: str, tmp_path: Path) -> None:
    [chart] = shell.json("report", "throughput", stream, "--by", "minute")
    assert sum(point["messages"] for point in chart["points"]) == 3
    assert chart["title"] == f"{stream}: messages per minute"
    messages, payload = shell.json("report", "growth", stream)
    assert messages["points"][-1]["messages"] == 3
    assert payload["points"][-1]["bytes"] == 3 * len("message a")
    [by_subject] = shell.json("report", "subjects", stream)
    assert by_subject["subjects"] == [{"subject": f"{stream}.{t}", "messages": 1} for t in "abc"]
    [combined] = shell.json("report", "subjects", stream, "--tokens", "1", "--bytes")
    assert combined["subjects"] == [{"subject": stream, "bytes": 27}]
    assert [
        each["points"] for each in shell.json("report", "throughput", stream, "--since", "2099-01-01")
    ] == [[]]
    assert f"{stream}: messages by subject" in shell.ok("report", "subjects", stream)
    picture = tmp_path / "growth.svg"
    assert shell.ok("report", "growth", stream, "--output", str(picture)) == f"{picture} is written\n"
    assert picture.read_text().startswith("<?xml")


def test_lag_is_drawn_from_the_history_of_an_engine(shell: Shell, name: str) -> None:
    shell.ok("stream", "add", name, "--subjects", f"headwater.history.{name}.>", "--defaults")
    for lag in (5, 9, 0):
        sample = json.dumps({"stream": f"$G/{name}-copy", "time": 1.0, "lag": lag})
        shell.ok("pub", f"headwater.history.{name}.stream._G.copy", sample, "--jetstream", "--quiet")
    engine = f"headwater.history.{name}.engine"
    shell.ok("pub", engine, '{"lag": 77}', "--jetstream", "--quiet")
    [chart] = shell.json("report", "lag", f"{name}-copy", "--history", name)
    assert max(point["messages"] for point in chart["points"]) == 9
    ran = shell("report", "lag", "OTHER", "--history", name)
    assert f"stream {name} has no lag of OTHER" in ran.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("throughput", "missing"), 1, "there is no stream missing"),
        (("lag", "X", "--history", "missing"), 1, "recorded by `headwater serve --history-stream missing`"),
        (("growth", "missing", "--since", "noon"), 2, "--since must be a duration such as 2d or a UTC time"),
        (("growth", "missing", "--output", "x.pdf"), 2, "--output must end with .svg or .png"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(
    shell: Shell, arguments: tuple[str, ...], code: int, words: str
) -> None:
    ran = shell("report", *arguments)
    assert (ran.code, words in ran.err) == (code, True), ran.err


async def test_a_store_is_read_without_an_engine(tmp_path: Path) -> None:
    async with lake(tmp_path) as running:
        store = str(running.store)
        shell = Shell(running.client_url, tmp_path)
    [chart] = shell.json("report", "subjects", "ORDERS", "--store", store, "--top", "2")
    assert [bar["messages"] for bar in chart["subjects"]] == [ORDERS // 3, ORDERS // 3]
    assert chart["total"] == ORDERS
    assert "no messages" in shell.ok("report", "throughput", "EMPTY", "--store", store)
    narrow = shell.ok("report", "throughput", "ORDERS", "--store", store, COLUMNS="50")
    assert max(map(len, narrow.splitlines())) <= 50
    assert "there is no stream NONE in" in shell("report", "growth", "NONE", "--store", store).err
