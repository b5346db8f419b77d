"""The engine's own replicator: started once, restarted, ended, and logged; here a script replaces it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from headwater.replication import supervisor
from headwater.replication.supervisor import Supervisor, environment, record_of
from headwater.settings import Settings
from waits import until

HANDOVER = Path("/store/replicator.toml")
SETTINGS = Settings(nats_url="nats://u:hush@b:2", user="me", password="hush")
LINE = {
    "time": "t",
    "level": "info",
    "logger": "headwater.replication.driver",
    "event": "copied",
    "messages": 3,
}
# Notes how it was started, says something, and lives on until it is asked to end.
SCRIPT = """
import json, os, pathlib, signal, sys, time
here = pathlib.Path(__file__).parent
with (here / "starts").open("a") as starts:
    environ = dict(os.environ)
    starts.write(json.dumps({"argv": sys.argv[1:], "pid": os.getpid(), "environ": environ}) + "\\n")
print(__LINE__, file=sys.stderr, flush=True)
print("26/11/15 WARN something of Java", file=sys.stderr, flush=True)
if (here / "fail").exists():
    sys.exit("headwater: Java 17 is missing")
if (here / "stubborn").exists():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)
""".replace("__LINE__", repr(json.dumps(LINE)))


class StandIn:
    """A script in the replicator's place, and what it has noted."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "replicator.py"
        self.path.write_text(SCRIPT)

    def supervisor(self) -> Supervisor:
        """Return a supervisor of the script."""
        return Supervisor(SETTINGS, HANDOVER, "id1", (sys.executable, str(self.path)))

    @property
    def starts(self) -> list[dict[str, object]]:
        """Return how it was started each time."""
        noted = self.directory / "starts"
        lines = noted.read_text().splitlines(keepends=True) if noted.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]


@pytest.fixture
def stand_in(tmp_path: Path) -> StandIn:
    """Return a program that replaces the replicator."""
    return StandIn(tmp_path)


def is_alive(pid: int) -> bool:
    """Return whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_nothing_is_started_before_it_is_wanted_and_one_process_however_often_it_is(
    stand_in: StandIn,
) -> None:
    watched = stand_in.supervisor()
    await asyncio.sleep(0.05)
    assert (watched.pid, stand_in.starts) == (None, [])
    for _ in range(3):
        watched.ensure()
    await until(lambda: len(stand_in.starts) == 1)
    (start,) = stand_in.starts
    assert start["pid"] == watched.pid
    assert start["argv"] == ["replicator", "--engine", f"id1={HANDOVER}", "--parent", str(os.getpid())]
    await watched.stop()
    assert not is_alive(int(str(start["pid"])))


async def test_secrets_are_neither_in_the_environment_nor_among_the_arguments(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_PASSWORD", "hush")
    watched = stand_in.supervisor()
    watched.ensure()
    await until(lambda: len(stand_in.starts) == 1)
    await watched.stop()
    (start,) = stand_in.starts
    assert "hush" not in str(start)


async def test_a_replicator_that_dies_is_started_again(
    stand_in: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    with patch.object(supervisor, "FIRST_WAIT_S", 0.01):
        watched = stand_in.supervisor()
        watched.ensure()
        await until(lambda: len(stand_in.starts) == 1)
        assert watched.pid is not None
        os.kill(watched.pid, signal.SIGKILL)
        assert watched.restarts == 0
        await until(lambda: len(stand_in.starts) == 2)
        assert watched.restarts == 1
        await watched.stop()
    assert "ended with status -9" in caplog.text


async def test_why_it_cannot_run_is_reported_until_it_runs_again(stand_in: StandIn) -> None:
    (stand_in.directory / "fail").touch()
    with patch.object(supervisor, "FIRST_WAIT_S", 0.01):
        watched = stand_in.supervisor()
        assert watched.problem == ""
        watched.ensure()
        await until(lambda: "Java 17 is missing" in watched.problem)
        (stand_in.directory / "fail").unlink()
        await until(lambda: watched.problem == "" and watched.pid is not None)
    await watched.stop()


async def test_a_program_that_cannot_be_started_is_a_problem_too(tmp_path: Path) -> None:
    watched = Supervisor(SETTINGS, HANDOVER, "id1", (str(tmp_path / "nothing"),))
    watched.ensure()
    await until(lambda: "cannot start" in watched.problem)
    await watched.stop()


async def test_one_that_does_not_end_when_asked_is_killed(stand_in: StandIn) -> None:
    (stand_in.directory / "stubborn").touch()
    with patch.object(supervisor, "STOP_TIMEOUT_S", 0.05):
        watched = stand_in.supervisor()
    watched.ensure()
    await until(lambda: len(stand_in.starts) == 1)
    await asyncio.sleep(0.3)
    pid = watched.pid
    assert pid is not None
    await watched.stop()
    assert not is_alive(pid)


async def test_what_it_says_is_in_our_log_under_its_own_name(
    stand_in: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    watched = stand_in.supervisor()
    with caplog.at_level(logging.DEBUG):
        watched.ensure()
        await until(lambda: "something of Java" in caplog.text)
        await watched.stop()
    (copied,) = [record for record in caplog.records if record.getMessage() == "copied"]
    assert (copied.name, copied.levelname) == ("headwater.replication.driver", "INFO")
    assert vars(copied)["messages"] == 3
    (noise,) = [record for record in caplog.records if "something of Java" in record.getMessage()]
    assert noise.levelname == "DEBUG"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
async def test_a_replicator_dies_with_an_engine_that_was_killed(stand_in: StandIn) -> None:
    engine = f"""
import asyncio, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from headwater.replication.supervisor import Supervisor
from headwater.settings import Settings

async def main():
    Supervisor(Settings(), Path("x"), "id1", (sys.executable, {str(stand_in.path)!r})).ensure()
    await asyncio.sleep(600)

asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", engine]) as process:
        await until(lambda: len(stand_in.starts) == 1)
        pid = int(str(stand_in.starts[0]["pid"]))
        assert is_alive(pid)
        process.kill()
        await until(lambda: not is_alive(pid))


def test_the_environment_holds_what_a_replicator_needs_and_none_of_our_own_variables() -> None:
    settings = Settings(spark_master="local[2]", log_level="debug")
    inherited = {"PATH": "/bin", "HEADWATER_STORE": "/s", "HEADWATER_CONFIG": "/c", "HEADWATER_TOKEN": "hush"}
    made = environment(settings, inherited)
    assert made["PATH"] == "/bin"
    assert (made["HEADWATER_SPARK_MASTER"], made["HEADWATER_LOG_LEVEL"]) == ("local[2]", "debug")
    assert not {"HEADWATER_STORE", "HEADWATER_CONFIG", "HEADWATER_TOKEN"} & set(made)


@pytest.mark.parametrize("line", ["", "plain words", "{}", "[1]", '{"level": "loud", "time": 1}', "7"])
def test_a_line_that_is_no_record_is_recognized(line: str) -> None:
    assert record_of(line) is None


def test_a_record_is_read_with_its_fields() -> None:
    found = record_of(json.dumps(LINE))
    assert found == (logging.INFO, "headwater.replication.driver", "copied", {"messages": 3})
