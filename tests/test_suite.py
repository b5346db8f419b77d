"""A test that failed beside others is tried once more alone, and what fails again fails the suite."""

from __future__ import annotations

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


def _suite(folder: Path, **modules: str) -> int:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "tests" / "fuzz").mkdir(parents=True)
    for name, body in modules.items():
        (folder / "tests" / name.replace("__", "/")).with_suffix(".py").write_text(body)
    return suite.run(["-n", "0"], folder)


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
