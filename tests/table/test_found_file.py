"""A file describes itself as the commit that added it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.disk import RealDisk
from headwater.errors import CorruptionError
from headwater.model.copied import Copied
from headwater.table import Table
from headwater.table.found_file import place_of, read_found
from headwater.table.schema import folder_of
from table.samples import columns


def test_a_file_is_described_as_its_commit_does(tmp_path: Path) -> None:
    table = Table.open(tmp_path, RealDisk(sync=False))
    table.commit(add=[table.write(columns([*range(3, 90), 95]))])
    (file,) = Table.open(tmp_path, RealDisk(sync=False)).files
    found = read_found(tmp_path, file.path)
    assert found.file == file
    assert list(found.seqs) == [*range(3, 90), 95]


def test_the_position_of_a_file_is_in_its_path() -> None:
    copied = Copied("ORDERS", "Ab1", 17, 1_000, 0, 0, 0)
    assert place_of(f"{folder_of(-5, copied)}/part-1.parquet") == (-5, copied)
    assert place_of(f"{folder_of(7)}/part-1.parquet") == (7, None)
    assert place_of("base_seq=7/part-1.parquet") == (7, None)


def test_a_damaged_file_is_not_described(tmp_path: Path) -> None:
    table = Table.open(tmp_path, RealDisk(sync=False))
    file = table.write(columns(range(1, 90)))
    path = tmp_path / file.path
    whole = path.read_bytes()
    for at in range(4, len(whole), 97):
        flipped = bytearray(whole)
        flipped[at] ^= 1
        path.write_bytes(flipped)
        with pytest.raises(CorruptionError):
            read_found(tmp_path, file.path)
    path.unlink()
    with pytest.raises(CorruptionError, match="cannot be read"):
        read_found(tmp_path, file.path)
