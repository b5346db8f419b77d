"""Forked workers run every test once, a module in one of them, and report it as one process would."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from waits import PATIENCE_S

TESTS = Path(__file__).parent
WORKER = "open(request.path.with_suffix('.txt'), 'a').write(os.environ['TEST_WORKER'] + '\\n')"
MANY = f"import os, pytest\n@pytest.mark.parametrize('n', range(8))\ndef test_it(n, request):\n    {WORKER}\n"
SESSION = """
import pytest
@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    yield tmp_path_factory.mktemp("shared")
    open({ended!r}, "a").write("ended\\n")
"""


def _folder(tmp_path: Path, more: str = "", **modules: str) -> Path:
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text() + more)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {TESTS} {TESTS.parent / 'src'}\n")
    for name, body in modules.items():
        (tmp_path / f"test_{name}.py").write_text(body)
    return tmp_path


def _command(workers: int, *options: str) -> list[str]:
    cache = ["-p", "no:cacheprovider"]
    return [sys.executable, "-m", "pytest", "-q", *cache, "--workers", str(workers), *options, "."]


def _environ() -> dict[str, str]:
    """Return an environment without Java, so that there is no archive to write."""
    return {key: value for key, value in os.environ.items() if key != "JAVA_HOME"} | {"PATH": ""}


def _run(folder: Path, workers: int, *options: str) -> subprocess.CompletedProcess[str]:
    command = _command(workers, *options)
    return subprocess.run(command, cwd=folder, env=_environ(), capture_output=True, text=True)


def test_the_tests_of_a_module_run_in_one_worker_and_each_once(tmp_path: Path) -> None:
    ran = _run(_folder(tmp_path, a=MANY, b=MANY, c=MANY), 2)
    assert ran.returncode == 0, ran.stdout
    assert "24 passed" in ran.stdout
    for name in "abc":
        used = (tmp_path / f"test_{name}.txt").read_text().split()
        assert (len(used), len(set(used))) == (8, 1)


def test_what_fails_is_shown_with_its_output_and_what_is_skipped_with_its_reason(tmp_path: Path) -> None:
    body = "def test_it():\n    print('what it printed')\n    assert 1 == 2\n"
    skipped = "import pytest\ndef test_no():\n    pytest.skip('not here')\n"
    ran = _run(_folder(tmp_path, a=body, b=skipped), 2, "-rfs")
    assert ran.returncode == 1
    assert "1 failed, 1 skipped" in ran.stdout
    for words in ("what it printed", "assert 1 == 2", "FAILED test_a.py::test_it", "not here"):
        assert words in ran.stdout


def test_a_test_that_ends_its_worker_fails_and_the_others_run(tmp_path: Path) -> None:
    body = "import os\ndef test_it():\n    os._exit(7)\n"
    ran = _run(_folder(tmp_path, a=body, b=MANY, c=MANY), 2)
    assert ran.returncode == 1
    assert "1 failed, 16 passed" in ran.stdout
    assert "ended with 7; the rest of its module was not run" in ran.stdout
    assert "FAILED test_a.py::test_it" in ran.stdout


def test_what_a_session_shares_is_set_up_once_in_a_worker_and_ended(tmp_path: Path) -> None:
    ended = tmp_path / "ended.txt"
    body = "def test_it(shared):\n    (shared / 'used').touch()\n"
    folder = _folder(tmp_path, SESSION.format(ended=str(ended)), a=body, b=body, c=body)
    assert _run(folder, 1).returncode == 0
    assert ended.read_text().split() == ["ended"]


def test_an_error_at_the_end_of_a_session_fails_the_run(tmp_path: Path) -> None:
    more = (
        "\n@pytest.fixture(scope='session')\ndef shared():\n    yield 1\n    raise OSError('left behind')\n"
    )
    ran = _run(_folder(tmp_path, more, a="def test_it(shared):\n    pass\n"), 1)
    assert ran.returncode == 1
    assert "left behind" in ran.stderr


def test_a_module_that_cannot_be_imported_ends_the_run_before_its_first_test(tmp_path: Path) -> None:
    ran = _run(_folder(tmp_path, a="import nothing_of_this_name\n", b=MANY), 2)
    assert ran.returncode == 2
    assert "nothing_of_this_name" in ran.stdout
    assert not (tmp_path / "test_b.txt").exists()


def test_the_first_failure_ends_a_run_that_is_asked_to_stop_there(tmp_path: Path) -> None:
    waits = "import time\ndef test_it():\n    time.sleep(600)\n"
    ran = _run(_folder(tmp_path, a="def test_it():\n    assert False\n", b=waits), 2, "-x")
    assert ran.returncode == 1
    assert "stopping after 1 failures" in ran.stdout


def test_an_interrupt_ends_all_workers_and_what_they_started(tmp_path: Path) -> None:
    ended = tmp_path / "ended.txt"
    body = "import time\ndef test_it(shared):\n    (shared.parents[1] / 'up').touch()\n    time.sleep(600)\n"
    folder = _folder(tmp_path, SESSION.format(ended=str(ended)), a=body)
    command = _command(1, "--basetemp", str(tmp_path / "base"))
    with subprocess.Popen(command, cwd=folder, env=_environ(), stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + PATIENCE_S
        while not (tmp_path / "base" / "up").exists():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
    assert process.returncode == 2
    assert ended.read_text().split() == ["ended"]
