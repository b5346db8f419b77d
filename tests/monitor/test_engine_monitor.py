"""Tests of monitor.engine_monitor."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from headwater.bus.free_port import free_port
from headwater.errors import SettingsError
from headwater.monitor.engine_monitor import EngineMonitor
from headwater.settings import Settings


async def test_a_port_in_use_is_an_error_for_an_engine_and_a_warning_for_a_standby(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    first, second = (EngineMonitor(Settings(http_port=port), tmp_path) for _ in range(2))
    async with first.running(), second.running():
        await first.listen()
        await second.listen_if_free()
        assert f"cannot serve monitoring on port {port} as a standby" in caplog.text
        with pytest.raises(SettingsError, match=f"http_port: cannot listen on 127.0.0.1:{port}"):
            await second.listen()
    async with second.running():
        await second.listen()  # released by the first


async def test_without_a_port_nothing_listens(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    monitor = EngineMonitor(Settings(), tmp_path)
    async with monitor.running():
        await monitor.listen_if_free()
        await monitor.listen()
        assert "monitoring" not in caplog.text
        assert len(asyncio.all_tasks()) >= 2, "the event loop is measured all the same"
