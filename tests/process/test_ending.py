"""The end of a process: the code and the output are kept, and no native thread aborts it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from headwater.process.ending import EXIT_BROKEN_OUTPUT, EXIT_INTERRUPTED

_NATIVE_THREAD = """
import threading, time
import pyarrow as pa

class SlowFile:
    closed = False
    def seek(self, offset, whence=0):
        return offset
    def tell(self):
        return 0
    def read(self, length):
        reads.set()
        while True:
            time.sleep(0.001)
    def close(self):
        pass

class LateEnd:
    sleep = staticmethod(time.sleep)
    def __del__(self):
        self.sleep(2)

reads = threading.Event()
threading.Thread(target=pa.PythonFile(SlowFile(), mode="r").read, args=(8,), daemon=True).start()
reads.wait()
finalized_late = LateEnd()
print("done")
"""
"""A thread is in Python, called from Arrow, and needs the GIL while the interpreter is finalized."""


def ended(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process, as the block of a `ProcessEnd`."""
    body = "\n".join(f"    {line}" for line in code.splitlines())
    program = f"from headwater.process.ending import ProcessEnd\nwith ProcessEnd():\n{body}\n"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)


def test_a_native_thread_that_needs_python_at_the_end_does_not_abort_the_process() -> None:
    done = ended(_NATIVE_THREAD)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        ("pass", 0),
        ("raise SystemExit", 0),
        ("raise SystemExit(3)", 3),
        ("raise SystemExit('a sentence')", 1),
        ("raise KeyboardInterrupt", EXIT_INTERRUPTED),
        ("raise ValueError", 1),
    ],
)
def test_the_exit_code_is_that_of_the_block(raised: str, code: int) -> None:
    done = ended(f"print('written'); import sys; sys.stderr.write('unflushed ')\n{raised}")
    assert (done.returncode, done.stdout) == (code, "written\n")
    assert done.stderr.startswith("unflushed ")


def test_a_bug_keeps_its_traceback() -> None:
    assert "ValueError: of a bug" in ended("raise ValueError('of a bug')").stderr


def test_exit_functions_run_and_threads_are_joined_before() -> None:
    done = ended(
        "import atexit, logging, tempfile, threading, time, sys\n"
        "logging.basicConfig(stream=sys.stdout)\n"
        "atexit.register(logging.warning, 'last')\n"
        "kept = tempfile.TemporaryDirectory()\n"
        "print(kept.name)\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), print('joined'))).start()\n"
        "sys.exit(4)"
    )
    folder, *rest = done.stdout.splitlines()
    assert (done.returncode, rest) == (4, ["joined", "WARNING:root:last"])
    assert subprocess.run(["test", "-e", folder]).returncode == 1


def test_output_that_cannot_be_written_is_an_error() -> None:
    done = ended("import sys\nsys.stdout = open('/dev/full', 'w')\nprint('lost')")
    assert (done.returncode, done.stderr) == (EXIT_BROKEN_OUTPUT, "")
