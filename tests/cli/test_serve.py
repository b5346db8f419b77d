"""`headwater serve` around the engine: refusal without a store, and how signals end it."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from headwater.cli.main import main
from headwater.cli.serve import run_until_told


def test_serve_without_a_store_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["serve"])
    assert left.value.code == 2
    assert "--store DIR" in capsys.readouterr().err


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

    run_until_told(work())
    assert steps == ["cleaned up"]


def test_a_cancellation_that_nobody_asked_for_is_not_taken_for_a_clean_end() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_until_told(work())


def test_an_error_of_the_work_reaches_the_caller() -> None:
    async def work() -> None:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        run_until_told(work())
