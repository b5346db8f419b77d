"""Staged files are read back whole and in order, and damage is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headwater.disk import RealDisk
from headwater.errors import CorruptionError
from headwater.table.output import Output
from headwater.table.staged import read_staged
from headwater.table.table_storage import LocalTableStorage
from table.samples import columns


def staged(directory: Path, count: int) -> Path:
    with Output(LocalTableStorage(directory, RealDisk(sync=False)), "files", 0, "none") as output:
        output.append(columns(list(range(5, 5 + count))))
        file = output.finish()
    return directory / file.path


def test_a_staged_file_gives_its_messages_in_parts(tmp_path: Path) -> None:
    parts = list(read_staged(staged(tmp_path, 40_000)))
    assert len(parts) > 1
    assert np.array_equal(np.concatenate([part.seqs for part in parts]), np.arange(5, 40_005))


def test_a_damaged_staged_file_is_refused(tmp_path: Path) -> None:
    path = staged(tmp_path, 100)
    raw = bytearray(path.read_bytes())
    raw[200] ^= 1
    path.write_bytes(raw)
    with pytest.raises(CorruptionError):
        list(read_staged(path))
