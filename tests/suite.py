"""The whole suite: all tests in parallel, then the few that failed again, alone.

Ten processes share two cores, Spark and a dozen servers, so a test can miss its wait for reasons of the
machine. A test that failed is therefore repeated once, alone, with the same seeds. What
passes then is listed at the end as unsteady: its wait is too short or it has a race, and it wants a fix.
What explores at random (`FINAL`) is never repeated, because one failure there is a finding, and neither
are more than `MOST` tests.

`--beside "make check"` runs a command while the tests run, because much of a test is waiting. The suite fails
if that command fails, and shows its output last.

One process collects the tests and forks the workers (`forks.py`). In a new clone another one archives the
classes of Spark at the same time (`spark_archive.py`).
"""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from rounds import choose_seed

FINAL = ("tests/simulation/", "tests/fuzz/", "tests/test_tidy.py")
"""Where one failure counts."""

MOST = 4
"""How many failed tests are repeated; more than that is no accident."""

_TESTS_FAILED = 1


class Beside:
    """A command that runs while the tests run; its output is shown when it is over."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._name = shlex.join(command)
        # A pipe that nothing reads would stop a command that says much.
        with tempfile.NamedTemporaryFile(delete=False) as output:
            self._process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        self._output = Path(output.name)

    def finish(self) -> int:
        """Wait for the command, say how it ended, and return its exit code."""
        code = self._process.wait()
        if code:
            print(f"\n===== {self._name} =====", self._output.read_text(errors="replace"), sep="\n")
        self._output.unlink()
        print(f"{'FAILED' if code else 'passed'}: {self._name}", flush=True)
        return code


def repeatable(failed: list[str]) -> bool:
    """Whether these tests, by their ids, may be tried once more."""
    return 0 < len(failed) <= MOST and not any(test.startswith(FINAL) for test in failed)


def run(options: list[str], folder: Path) -> int:
    """Run the tests in `folder` with these options of pytest, and return the exit code."""
    choose_seed()
    with tempfile.TemporaryDirectory() as cache:
        code = _pytest(["-o", f"cache_dir={cache}", *options], folder)
        failed = _last_failed(Path(cache))
    if code != _TESTS_FAILED or not repeatable(failed):
        return code
    print(f"\nonce more, alone: {len(failed)} that failed beside the others", flush=True)
    again = _pytest([*failed], folder)
    if again == 0:
        print("\nUNSTEADY (failed beside the others, passed alone; fix them):", *failed, sep="\n  ")
    return again


def run_beside(command: list[str], options: list[str], folder: Path) -> int:
    """Run the tests as `run` does and the command at the same time, and return 0 if both pass."""
    beside = Beside(command, folder)
    code = run(options, folder)
    return beside.finish() or code


def _pytest(options: list[str], folder: Path) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *options], cwd=folder).returncode


def _last_failed(cache: Path) -> list[str]:
    recorded = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(recorded.read_text())) if recorded.exists() else []


def main(arguments: list[str], folder: Path) -> int:
    """Run the suite as the command line asks for it."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--beside", type=shlex.split)
    ours, options = parser.parse_known_args(arguments)
    # A shell's background job ignores Ctrl-C, and so would the commands that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return run_beside(ours.beside, options, folder) if ours.beside else run(options, folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(__file__).parents[1]))
