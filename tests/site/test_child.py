"""A child is waited for, started again when it dies, and never left behind."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from headwater.site import child
from headwater.site.child import Child, ChildError
from waits import until

LOOP = "import time; print('here', flush=True); time.sleep(600)"


async def says_here(process: Child) -> bool:
    return "here" in process.said


async def test_a_child_is_ready_when_it_says_so_and_gone_when_stopped(tmp_path: Path) -> None:
    process = Child("it", [sys.executable, "-c", LOOP], tmp_path / "log", says_here)
    await process.start()
    pid = process.pid
    assert pid is not None
    os.kill(pid, 0)
    await process.stop()
    assert process.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_child_that_dies_is_started_again(tmp_path: Path) -> None:
    process = Child("it", [sys.executable, "-c", LOOP], tmp_path / "log", says_here)
    await process.start()
    try:
        first = process.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: process.pid not in (None, first) and "here" in process.said)
        assert process.restarts == 1
    finally:
        await process.stop()


async def test_a_child_that_cannot_start_says_why(tmp_path: Path) -> None:
    broken = Child("it", [sys.executable, "-c", "raise SystemExit('no way')"], tmp_path / "log", says_here)
    with pytest.raises(ChildError, match=r"it ended with status 1: no way \(more in "):
        await broken.start()
    assert broken.pid is None


async def test_a_child_that_never_gets_ready_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "READY_TIMEOUT_S", 0.2)
    mute = Child("it", [sys.executable, "-c", "import time; time.sleep(600)"], tmp_path / "log", says_here)
    with pytest.raises(ChildError, match=r"was not ready in 0\.2 s: it said nothing"):
        await mute.start()
    assert mute.pid is None


async def test_a_child_that_does_not_listen_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "STOP_TIMEOUT_S", 0.2)
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + LOOP
    process = Child("it", [sys.executable, "-c", deaf], tmp_path / "log", says_here)
    await process.start()
    await process.stop()
    assert process.pid is None
