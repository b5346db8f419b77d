"""`headwater serve`: how it starts, how signals end it, and what it says when it cannot."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.bus.free_port import free_port
from headwater.cli.main import main
from headwater.cli.serve import run_until_signalled


def test_serve_without_a_store_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["serve"])
    assert left.value.code == 2
    assert "--store DIR" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("file", "is a file, or is below a file"),
        ("file/below", "is a file, or is below a file"),
        ("/proc/nobody-can-make-this", "cannot be created"),
    ],
)
def test_a_store_that_cannot_be_a_directory_is_bad_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str, words: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as left:
        main(["serve", "--store", str(tmp_path / place)])
    said = capsys.readouterr().err
    assert (left.value.code, words in said, "Traceback" in said) == (2, True, False)
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_work_clean_up_and_ends_it_without_error(number: signal.Signals) -> None:
    steps: list[str] = []

    async def work() -> None:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), number)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned up")

    run_until_signalled(work())
    assert steps == ["cleaned up"]


def test_an_unexpected_cancellation_is_not_a_clean_end() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_until_signalled(work())


def test_an_error_of_the_work_reaches_the_caller() -> None:
    async def work() -> None:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        run_until_signalled(work())


@contextmanager
def engine(store: Path, *options: str, port: int = 0) -> Iterator[subprocess.Popen[str]]:
    """Run an engine, on a free port if need be, and leave no process behind."""
    command = [
        sys.executable,
        "-m",
        "headwater",
        "serve",
        "--store",
        str(store),
        "--port",
        str(port),
        *options,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_an_engine_says_on_one_line_that_it_is_ready_and_sigterm_ends_it_cleanly(tmp_path: Path) -> None:
    with engine(tmp_path / "store") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("headwater is ready")
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate()
    assert (process.returncode, output) == (0, "")
    assert "Traceback" not in errors


def test_a_store_that_another_engine_holds_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with engine(tmp_path / "store") as first:
        assert first.stdout is not None
        assert first.stdout.readline()
        with engine(tmp_path / "store") as second:
            output, errors = second.communicate()
    assert (second.returncode, output) == (1, "")
    assert errors.startswith("headwater: ")
    assert errors.count("\n") == 1


def test_a_standby_says_whom_it_waits_for_and_takes_over_the_store_and_the_port(tmp_path: Path) -> None:
    port = free_port()
    with engine(tmp_path / "store", port=port) as first:
        assert first.stdout is not None
        assert first.stdout.readline().startswith("headwater is ready")
        with engine(tmp_path / "store", "--standby", port=port) as second:
            assert second.stdout is not None
            assert second.stdout.readline().rstrip().endswith(f"the engine with process id {first.pid}")
            first.kill()
            assert second.stdout.readline().startswith(f"headwater is ready: on nats://127.0.0.1:{port}")
            second.send_signal(signal.SIGTERM)
            second.communicate()
    assert second.returncode == 0


def test_a_standby_that_is_stopped_while_it_waits_ends_without_error(tmp_path: Path) -> None:
    with engine(tmp_path / "store") as first:
        assert first.stdout is not None
        assert first.stdout.readline()
        with engine(tmp_path / "store", "--standby") as second:
            assert second.stdout is not None
            assert second.stdout.readline().startswith("headwater waits")
            second.send_signal(signal.SIGTERM)
            output, errors = second.communicate()
        assert first.poll() is None
    assert (second.returncode, output, errors) == (0, "", "")
