"""Announcements of an engine are printed, one line each."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.announcements import PrintedAnnouncements


def test_each_announcement_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    printed = PrintedAnnouncements()
    printed.waiting(Path("lake"), "17")
    printed.waiting(Path("lake"), "")
    printed.ready("nats://127.0.0.1:4222", "on nats://127.0.0.1:4222, 0 streams in lake", 0.126)
    assert capsys.readouterr().out.splitlines() == [
        "headwater waits: lake is served by the engine with process id 17",
        "headwater waits: lake is served by the engine with process id unknown",
        "headwater is ready: on nats://127.0.0.1:4222, 0 streams in lake (0.13 s)",
    ]
