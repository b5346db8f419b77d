"""Java is found where Spark looks for it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from headwater.replication.java import MISSING, java_path
from headwater.replication.supervisor import Supervisor
from headwater.settings import Settings


def test_java_is_looked_for_in_java_home_then_on_the_path(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    for folder in (home / "bin", other):
        folder.mkdir(parents=True)
        (folder / "java").write_text("#!/bin/sh\n")
        (folder / "java").chmod(0o755)
    assert java_path({"JAVA_HOME": str(home), "PATH": str(other)}) == str(home / "bin" / "java")
    assert java_path({"PATH": str(other)}) == str(other / "java")
    assert java_path({"JAVA_HOME": str(tmp_path), "PATH": str(other)}) is None
    assert java_path({"PATH": str(tmp_path)}) is None


def test_a_missing_java_is_reported_before_anything_is_to_be_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    supervisor = Supervisor(Settings(), tmp_path / "replicator.toml", "id")
    with caplog.at_level(logging.WARNING):
        supervisor.look_for_java()
    assert supervisor.problem == MISSING
    assert "sources and mirrors are not copied until then" in caplog.text
