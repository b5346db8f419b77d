"""The report command: both tables, maps, sorting, JSON, and the live view."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.cli.stream.report import FoundStreams, ReportScope, sheets
from jetstreams import Shell, jetstream
from stream_infos import ORDERS, STORY


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A nats-server with a stream and its mirror."""
    with jetstream("nats-server", tmp_path_factory.mktemp("report")) as shell:
        shell.ok("stream", "add", "ORDERS", "--subjects", "ORDERS.>", "--storage", "memory", "--defaults")
        shell.ok("stream", "add", "COPY", "--mirror", "ORDERS", "--defaults")
        shell.ok("stream", "add", "KV_x", "--subjects", "$KV.x.>", "--defaults")
        yield shell


def test_both_tables_are_written(story: Shell) -> None:
    text = story.ok("stream", "report")
    assert text.startswith("Obtaining Stream stats\n\n╭")
    assert text.index("Stream Report") < text.index("Replication Report")
    assert "\x1b" not in text
    assert "│ COPY   │ Mirror │            │ ORDERS        │" in text


def test_internal_streams_are_shown_when_asked_for(story: Shell) -> None:
    assert "KV_x" not in story.ok("stream", "report")
    assert "KV_x" in story.ok("stream", "report", "--all")


def test_the_report_may_be_about_one_subject(story: Shell) -> None:
    text = story.ok("stream", "report", "--subject", "ORDERS.new")
    assert "Replication Report" not in text
    assert [info["config"]["name"] for info in story.json("stream", "report", "--subject", "ORDERS.new")] == [
        "ORDERS"
    ]


def test_without_streams_it_says_so(story: Shell) -> None:
    assert (
        story.ok("stream", "report", "--cluster", "none") == "Obtaining Stream stats\n\nNo Streams defined\n"
    )


def test_the_columns_fit_the_width_that_columns_says(story: Shell) -> None:
    text = story.ok("stream", "report", COLUMNS="80")
    assert max(map(len, text.splitlines())) <= 80


def test_the_map_is_written_as_text_and_as_a_drawing(story: Shell, tmp_path: Path) -> None:
    dot, svg = tmp_path / "r.dot", tmp_path / "r.svg"
    ran = story("stream", "report", "--dot", str(dot), "--svg", str(svg), PATH=str(tmp_path))
    assert ran.code == 0
    assert 'n2->n1[color="blue",label="Mirror' in dot.read_text()
    assert svg.read_text().startswith("<svg ")
    assert f"{svg}, drawn by headwater" in ran.err


def test_without_replication_no_map_is_written(story: Shell, tmp_path: Path) -> None:
    dot = tmp_path / "r.dot"
    ran = story("stream", "report", "--subject", "ORDERS.x", "--dot", str(dot))
    assert (ran.err, dot.exists()) == ("There are no sources or mirrors: no graph was written\n", False)


def test_a_png_without_graphviz_says_what_to_do(story: Shell, tmp_path: Path) -> None:
    ran = story("stream", "report", "--png", str(tmp_path / "r.png"), PATH=str(tmp_path))
    assert (ran.code, "install its program `dot`, or use --svg" in ran.err) == (1, True)


def test_a_report_can_be_watched_until_ctrl_c(story: Shell) -> None:
    command = [sys.executable, "-m", "headwater", "stream", "report", "--watch", "--interval", "100ms"]
    process = subprocess.Popen(
        command,
        env={**os.environ, **story.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        seen = rates = 0
        while seen < 2 and (line := process.stdout.readline()):
            seen += "Replication Report" in line
            rates += "0/s" in line
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (seen, process.returncode, err) == (2, 0, "")
    assert rates > 0


def test_streams_that_do_not_answer_are_listed_below() -> None:
    found = FoundStreams(STORY, ["LOST"], ["AWAY"])
    titles = [getattr(sheet, "title", "") for sheet in sheets(found, ReportScope(leaders=True))]
    assert titles == [
        "Stream Report",
        "Replication Report",
        "Stream Leaders",
        "Inaccessible Streams",
        "Offline Streams",
    ]
    assert len(sheets(FoundStreams([ORDERS], [], []), ReportScope())) == 1
