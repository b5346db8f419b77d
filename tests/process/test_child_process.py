"""A child is read line by line, ends when asked, and is killed with its group when it does not."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from headwater.process import child_process
from headwater.process.child_process import ChildProcess
from waits import until


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


SLEEP = "import time; time.sleep(600)"
STUBBORN = f"""
import signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
inner = subprocess.Popen([sys.executable, "-c", {SLEEP!r}])
print(inner.pid, file=sys.stderr, flush=True)
inner.wait()
"""


def is_alive(pid: int) -> bool:
    """Return whether a process runs, and is not only waiting for its parent."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_all_lines_are_read_when_it_has_ended() -> None:
    lines: list[str] = []
    child = ChildProcess(5.0, lines.append)
    assert (child.pid, child.status, await child.ended()) == (None, None, None)
    await child.start(python("import sys; sys.stderr.write('a \\nb'); sys.exit(3)"))
    assert await child.ended() == 3
    assert lines == ["a", "b"]
    assert (child.pid, child.status, child.is_running) == (None, 3, False)


async def test_a_line_that_is_too_long_is_left_out() -> None:
    lines: list[str] = []
    child = ChildProcess(5.0, lines.append)
    size = 3 * child_process.MAX_LINE
    await child.start(python(f"import sys; sys.stderr.write('x' * {size} + '\\nlast\\n')"))
    assert await child.ended() == 0
    assert lines[-1] == "last"
    assert all(len(line) <= child_process.MAX_LINE for line in lines)


async def test_output_goes_to_a_file_if_one_is_given(tmp_path: Path) -> None:
    child = ChildProcess(5.0)
    with (tmp_path / "log").open("wb") as log:
        await child.start(
            python("import os; print(os.environ['GIVEN'])"), environment={"GIVEN": "yes"}, output=log
        )
    await child.ended()
    assert (tmp_path / "log").read_text() == "yes\n"


async def test_it_can_be_started_again() -> None:
    child = ChildProcess(5.0, lambda line: None)
    await child.start(python(SLEEP))
    first = child.pid
    await child.end()
    await child.end()
    await child.start(python(SLEEP))
    assert child.is_running
    assert child.pid != first
    await child.end()
    assert child.pid is None


async def test_one_that_does_not_end_is_killed_with_its_own_children() -> None:
    lines: list[str] = []
    child = ChildProcess(0.05, lines.append)
    await child.start(python(STUBBORN))
    await until(lambda: bool(lines))
    assert is_alive(int(lines[0]))
    await child.end()
    assert child.status == -9
    await until(lambda: not is_alive(int(lines[0])))


async def test_a_pipe_that_a_child_of_its_own_keeps_open_does_not_delay_the_end() -> None:
    lines: list[str] = []
    child = ChildProcess(5.0, lines.append)
    inner = f"subprocess.Popen([sys.executable, '-c', {SLEEP!r}])"
    await child.start(python(f"import subprocess, sys; print({inner}.pid, file=sys.stderr)"))
    await until(lambda: bool(lines))
    await until(lambda: child.status is not None)
    await child.end()
    os.kill(int(lines[0]), 9)
