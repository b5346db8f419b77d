"""A loop on its own thread runs coroutines of other threads, and ends with all that it runs."""

from __future__ import annotations

import asyncio
import threading

import pytest

from headwater.loop_thread import LoopThread


def test_coroutines_run_on_the_thread_and_their_errors_are_raised_here() -> None:
    thread = LoopThread("a loop")

    async def named() -> str:
        return threading.current_thread().name

    async def fails() -> None:
        raise ValueError("no")

    assert thread.run(named()) == "a loop"
    with pytest.raises(ValueError, match="no"):
        thread.run(fails())
    thread.stop()
    assert not thread.is_alive


def test_what_still_runs_is_cancelled_when_the_thread_stops() -> None:
    thread = LoopThread("a loop")
    began, ended = threading.Event(), threading.Event()

    async def waits() -> None:
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    thread.submit(waits())
    assert began.wait(60)
    thread.stop()
    assert ended.is_set()
    thread.stop()


def test_a_function_is_called_by_the_loop() -> None:
    thread = LoopThread("a loop")
    called: list[str] = []
    thread.call(lambda: called.append(threading.current_thread().name))
    thread.run(asyncio.sleep(0))
    thread.stop()
    assert called == ["a loop"]
