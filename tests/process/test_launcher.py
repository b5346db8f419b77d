"""A child that is bound to us becomes its program and ends with us."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.process.launcher import bound_to_us
from waits import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")


def test_the_child_is_the_program_with_its_arguments_and_environment() -> None:
    child = [
        sys.executable,
        "-c",
        "import os, sys; print(os.getpid(), sys.argv[1:], os.environ['GIVEN'])",
        "a b",
        "c",
    ]
    process = subprocess.Popen(
        bound_to_us(child), stdout=subprocess.PIPE, text=True, env={**os.environ, "GIVEN": "yes"}
    )
    said, _ = process.communicate()
    assert said.strip() == f"{process.pid} ['a b', 'c'] yes"


def test_a_program_that_is_not_there_fails() -> None:
    with pytest.raises(FileNotFoundError, match="/no/such/program"):
        bound_to_us(["/no/such/program"])


PARENT = """
import subprocess, sys, time
from headwater.process.launcher import bound_to_us
sleeper = "import time; print('up', flush=True); time.sleep(600)"
child = subprocess.Popen(bound_to_us([sys.executable, "-c", sleeper]))
print(child.pid, flush=True)
time.sleep(600)
"""


async def test_the_child_dies_with_a_killed_parent() -> None:
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, env=path)
    assert parent.stdout is not None
    said = {parent.stdout.readline().strip(), parent.stdout.readline().strip()}
    assert "up" in said
    status = Path(f"/proc/{next(iter(said - {'up'}))}/status")
    parent.kill()
    parent.wait()
    parent.stdout.close()
    await until(lambda: not status.exists() or "State:\tZ" in status.read_text())
