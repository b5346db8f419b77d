"""The whole suite: all tests side by side, then the few that failed once more, alone.

Four processes share two cores, Spark and a dozen servers, so a test can miss its wait for reasons of the
machine. A test that failed is therefore repeated once with nothing beside it, with the same seeds. What
passes then is listed at the end as unsteady: its wait is too short or it has a race, and it wants a fix.
What explores at random (`FINAL`) is never repeated, because one failure there is a finding, and neither
are more than `MOST` tests.
"""

from __future__ import annotations

import json
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
_SIDE_BY_SIDE = ("--dist", "loadfile", "--no-loadscope-reorder")


def repeatable(failed: list[str]) -> bool:
    """Whether these tests, by their ids, may be tried once more."""
    return 0 < len(failed) <= MOST and not any(test.startswith(FINAL) for test in failed)


def run(options: list[str], folder: Path) -> int:
    """Run the tests in `folder` with these options of pytest, and return the exit code."""
    choose_seed()
    with tempfile.TemporaryDirectory() as cache:
        code = _pytest(["-o", f"cache_dir={cache}", *_SIDE_BY_SIDE, *options], folder)
        failed = _last_failed(Path(cache))
    if code != _TESTS_FAILED or not repeatable(failed):
        return code
    print(f"\nonce more, alone: {len(failed)} that failed beside the others", flush=True)
    again = _pytest(["-p", "no:xdist", *failed], folder)
    if again == 0:
        print("\nUNSTEADY (failed beside the others, passed alone; fix them):", *failed, sep="\n  ")
    return again


def _pytest(options: list[str], folder: Path) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *options], cwd=folder).returncode


def _last_failed(cache: Path) -> list[str]:
    recorded = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(recorded.read_text())) if recorded.exists() else []


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], Path(__file__).parents[1]))
