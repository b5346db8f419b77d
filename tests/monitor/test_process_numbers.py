"""Tests of monitor.process_numbers."""

from __future__ import annotations

import time
from pathlib import Path

from headwater.monitor.exposition import Exposition
from headwater.monitor.process_numbers import start_time_s, write_disk, write_process
from monitor.families import parsed


def test_a_process_shows_its_time_memory_and_files() -> None:
    exposition = Exposition()
    write_process(exposition)
    values = {name: samples[0][1] for name, samples in parsed(exposition.text()).items()}
    assert values["process_cpu_seconds_total"] > 0
    assert values["process_resident_memory_bytes"] > 1_000_000
    assert 0 < values["process_open_fds"] <= values["process_max_fds"]
    assert 0 < values["process_start_time_seconds"] <= time.time()


def test_the_start_does_not_move() -> None:
    assert abs(start_time_s() - start_time_s()) < 1.0


def test_a_disk_that_does_not_answer_is_left_out(tmp_path: Path) -> None:
    exposition = Exposition()
    write_disk(exposition, tmp_path / "missing")
    assert exposition.text() == b"# EOF\n"
    write_disk(exposition, tmp_path)
    values = {name: samples[0][1] for name, samples in parsed(exposition.text()).items()}
    assert 0 < values["headwater_disk_free_bytes"] <= values["headwater_disk_size_bytes"]
