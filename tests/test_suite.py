"""A test that failed next to others is repeated once alone, and fails the suite if it fails again."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path

import pytest

import suite

SECOND_TIME = """
from pathlib import Path
def test_it():
    seen = Path(__file__).with_suffix(".seen")
    known = seen.exists()
    seen.touch()
    assert known
"""
NEVER = "def test_it():\n    assert False\n"
ALWAYS = "def test_it():\n    pass\n"


def _suite(folder: Path, *options: str, **modules: str) -> int:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "tests" / "fuzz").mkdir(parents=True)
    for name, body in modules.items():
        (folder / "tests" / name.replace("__", "/")).with_suffix(".py").write_text(body)
    return suite.main([*options], folder)


def _beside(code: int) -> tuple[str, str]:
    program = f"import sys; print('what it found'); sys.exit({code})"
    return "--beside", shlex.join([sys.executable, "-c", program])


def test_a_suite_that_passes_runs_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert _suite(tmp_path, test_a=ALWAYS, test_b=ALWAYS) == 0
    assert "once more" not in capfd.readouterr().out


def test_a_test_that_passes_alone_is_listed_and_the_suite_passes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _suite(tmp_path, test_a=SECOND_TIME, test_b=ALWAYS) == 0
    unsteady = capfd.readouterr().out.partition("UNSTEADY")[2]
    assert "tests/test_a.py::test_it" in unsteady
    assert "test_b" not in unsteady


def test_a_test_that_fails_again_fails_the_suite(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert _suite(tmp_path, test_a=NEVER, test_b=SECOND_TIME) == 1
    assert "UNSTEADY" not in capfd.readouterr().out


def test_what_explores_at_random_is_not_repeated(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert _suite(tmp_path, fuzz__test_a=SECOND_TIME) == 1
    assert "once more" not in capfd.readouterr().out


def test_many_failures_are_no_accident() -> None:
    assert suite.repeatable([f"tests/test_a.py::test_{n}" for n in range(suite.MOST)])
    assert not suite.repeatable([f"tests/test_a.py::test_{n}" for n in range(suite.MOST + 1)])


def test_a_command_that_runs_beside_the_tests_fails_the_suite_and_is_shown_last(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _suite(tmp_path, *_beside(2), test_a=ALWAYS) == 2
    last = capfd.readouterr().out.partition("1 passed")[2]
    assert "what it found\n" in last
    assert "FAILED: " in last.splitlines()[-1]


def test_a_command_that_says_much_is_over_before_the_tests_are(tmp_path: Path) -> None:
    done = tmp_path / "done"
    program = f"print('x' * 1_000_000); open({str(done)!r}, 'w').close()"
    beside = suite.Beside([sys.executable, "-c", program], tmp_path)
    deadline = time.monotonic() + 60
    while not done.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert beside.finish() == 0


def test_a_command_that_passes_beside_the_tests_saves_no_test(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _suite(tmp_path, *_beside(0), test_a=NEVER) == 1
    last = capfd.readouterr().out.splitlines()[-1]
    assert last.startswith("passed: ")
