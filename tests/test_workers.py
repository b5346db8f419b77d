"""Tests of one module run in one worker, and long ones begin first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from workers import FIRST, rank

TESTS = Path(__file__).parent


def test_what_takes_longest_begins_first() -> None:
    modules = [
        "log/test_log.py",
        "on_spark/test_jobs.py",
        "conformance/test_scenarios.py",
        "on_spark/test_cinemas.py",
    ]
    assert sorted(modules, key=rank) == [
        "conformance/test_scenarios.py",
        "on_spark/test_cinemas.py",
        "on_spark/test_jobs.py",
        "log/test_log.py",
    ]


def test_every_place_in_the_order_is_a_module_or_a_folder() -> None:
    assert [place for place in FIRST if not (TESTS / place).exists()] == []


def test_the_tests_of_a_module_run_in_one_worker(tmp_path: Path) -> None:
    body = "import os, pytest\n@pytest.mark.parametrize('n', range(8))\ndef test_it(n, request):\n"
    body += (
        "    open(request.path.with_suffix('.txt'), 'a').write(os.environ['PYTEST_XDIST_WORKER'] + '\\n')\n"
    )
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {TESTS} {TESTS.parent / 'src'}\n")
    for name in ("test_a.py", "test_b.py", "test_c.py"):
        (tmp_path / name).write_text(body)
    options = ["-q", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "-p", "no:cacheprovider"]
    subprocess.run([sys.executable, "-m", "pytest", *options, str(tmp_path)], check=True, cwd=tmp_path)
    for name in ("test_a.txt", "test_b.txt", "test_c.txt"):
        used = (tmp_path / name).read_text().split()
        assert (len(used), len(set(used))) == (8, 1)
