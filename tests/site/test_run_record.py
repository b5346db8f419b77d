"""The record distinguishes a process from a later one with the same id."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.errors import Error
from headwater.site.run_record import (
    Running,
    RunRecord,
    born,
    lives,
    read_record,
    remove_record,
    running,
    take_folder,
    write_record,
)


def test_a_process_is_known_by_its_number_and_its_birth() -> None:
    here = running("here", os.getpid())
    assert lives(here)
    assert not lives(Running("other", os.getpid(), "another birth"))
    assert not lives(Running("nobody", os.getpid(), ""))


def test_a_process_that_ended_lives_no_more_even_before_it_is_buried() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    recorded = running("it", process.pid)
    assert lives(recorded)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not lives(recorded)
    process.wait()
    assert born(process.pid) == ""


def test_a_record_is_written_read_and_removed(tmp_path: Path) -> None:
    record = RunRecord(running("keeper", os.getpid()), ("a.yaml",), True, (running("child", os.getpid()),))
    assert read_record(tmp_path) is None
    write_record(tmp_path, record)
    assert read_record(tmp_path) == record
    (tmp_path / "running.json").write_text("{")
    assert read_record(tmp_path) is None
    remove_record(tmp_path)
    remove_record(tmp_path)


def test_a_folder_has_one_keeper_at_a_time(tmp_path: Path) -> None:
    with take_folder(tmp_path / "new"):
        with pytest.raises(Error, match="running already"):
            take_folder(tmp_path / "new")
    take_folder(tmp_path / "new").close()
