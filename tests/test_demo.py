"""The demo runs to its end, and without Java it says what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo.stage import DemoError, Stage
from demo.story import EXIT_WITHOUT_JAVA, section

ROOT = Path(__file__).parent.parent


def run_demo(**environ: str) -> tuple[int, str]:
    """Run the demo without a terminal; return its exit code and what it printed."""
    ran = subprocess.run(
        [sys.executable, "-m", "demo.story"],
        cwd=ROOT,
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    return ran.returncode, ran.stdout


def test_without_java_streams_are_shown_and_the_rest_is_named(tmp_path: Path) -> None:
    code, said = run_demo(PATH=str(tmp_path), JAVA_HOME=str(tmp_path))
    assert code == EXIT_WITHOUT_JAVA, said
    assert "Java 17 is missing, which Spark needs: apt-get install" in said
    assert "everything that was acknowledged is there: 5,000 messages" in said
    assert "Traceback" not in said


def test_an_engine_that_does_not_start_shows_what_it_said_this_time_only(tmp_path: Path) -> None:
    stage = Stage(tmp_path, store=tmp_path / "store")
    (tmp_path / "engine.log").write_text("an error of an earlier run\n")
    (tmp_path / "store").write_text("not a directory")
    with pytest.raises(DemoError) as raised:
        stage.start()
    assert "an error of an earlier run" not in str(raised.value)
    assert "store" in str(raised.value)


@pytest.mark.skipif(not os.environ.get("TEST_DEMO"), reason="takes a minute; `make test-demo` runs it")
def test_the_demo_runs_to_its_end() -> None:
    code, said = run_demo()
    assert code == 0, said
    assert "✓ all 201 messages: the same sequences, timestamps, subjects, headers and data" in said
    assert "nothing is lost" in said
    assert "|RETURNS             |RETURNS.new  |100     |" in said
    for noise in ("WARN", "Traceback", "\x1b["):
        assert noise not in said
    assert (ROOT / ".headwater" / "demo" / "replication.svg").read_text().startswith("<svg")


def test_an_extract_shows_its_section_and_that_there_is_more() -> None:
    page = "Top\n\n  a: 1\n\nMirror Information:\n\n  Lag: 0\n\nState:\n\n  b: 2\n"
    assert section("Mirror Information", page) == "…\nMirror Information:\n\n  Lag: 0\n…"


def test_the_demo_looks_at_no_context_of_the_user(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    assert stage._environ["XDG_CONFIG_HOME"].startswith(str(tmp_path))
    assert stage._environ["NATS_URL"] == stage.url
