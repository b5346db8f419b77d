"""A file is durable under its own name, or leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import DiskError
from headwater.table.output import Output, footer_crc_of
from headwater.table.table_storage import LocalTableStorage
from table.samples import BreakableDisk, columns


@pytest.fixture
def disk(tmp_path: Path) -> BreakableDisk:
    disk = BreakableDisk()
    disk.mkdir(tmp_path / "base_seq=1/more")
    return disk


def test_a_finished_file_is_synced_before_and_after_its_renaming(tmp_path: Path, disk: BreakableDisk) -> None:
    with Output(LocalTableStorage(tmp_path, disk), "base_seq=1/more", 1, "none") as output:
        disk.calls.clear()
        output.append(columns([1, 2, 5]))
        file = output.finish()
    assert [operation for operation, _ in disk.calls] == ["sync_file", "rename", "sync_dir"]
    assert disk.list(tmp_path / "base_seq=1/more") == [Path(file.path).name]
    assert (file.first_seq, file.last_seq, file.rows) == (1, 5, 3)
    assert file.size_bytes == (tmp_path / file.path).stat().st_size


@pytest.mark.parametrize("step", ["sync_file", "rename"])
def test_a_refused_step_leaves_nothing_behind(tmp_path: Path, disk: BreakableDisk, step: str) -> None:
    disk.refuses = lambda operation, path: operation == step
    with Output(LocalTableStorage(tmp_path, disk), "base_seq=1/more", 1, "none") as output:
        output.append(columns([1]))
        with pytest.raises(DiskError):
            output.finish()
    assert disk.list(tmp_path / "base_seq=1/more") == []


def test_a_file_that_cannot_be_made_is_a_refusal_of_the_disk(tmp_path: Path, disk: BreakableDisk) -> None:
    (tmp_path / "base_seq=2").write_bytes(b"in the way")
    with pytest.raises(DiskError):
        Output(LocalTableStorage(tmp_path, disk), "base_seq=2", 2, "none")


def test_the_name_contains_the_footers_checksum() -> None:
    assert footer_crc_of("data/part-0123-0000ffff.parquet") == 0xFFFF
    assert footer_crc_of("data/foreign.parquet") is None
