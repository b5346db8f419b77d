"""A damaged Delta log is refused by name; what a crash tears is moved aside."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headwater.disk import RealDisk
from headwater.errors import CorruptionError
from headwater.table import Table
from headwater.table.commit_file import checkpoint_name, commit_name
from headwater.table.mending import SUMS, read_sums
from rounds import choose_seed
from table.samples import columns, everything

DISK = RealDisk(sync=False)


def made(directory: Path, commits: int) -> Table:
    table = Table.open(directory, DISK)
    for number in range(commits):
        table.commit(add=[table.write(columns([number + 1]))], transactions={"fold": number + 1})
        table.maintain()
    return table


def flip(path: Path, at: int = -20) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x10
    path.write_bytes(content)


def test_a_damaged_commit_that_is_not_the_newest_is_refused(tmp_path: Path) -> None:
    made(tmp_path, 3)
    flip(tmp_path / "_delta_log" / commit_name(2))
    with pytest.raises(CorruptionError, match="headwater store repair"):
        Table.open(tmp_path, DISK)
    assert not (tmp_path / "torn").exists()


def test_a_missing_commit_is_refused(tmp_path: Path) -> None:
    made(tmp_path, 3)
    (tmp_path / "_delta_log" / commit_name(2)).unlink()
    with pytest.raises(CorruptionError, match=r"missing.*headwater store repair"):
        Table.open(tmp_path, DISK)


def test_a_table_whose_log_is_gone_is_not_begun_again_over_its_files(tmp_path: Path) -> None:
    made(tmp_path, 1)
    for path in (tmp_path / "_delta_log").iterdir():
        path.unlink()
    with pytest.raises(CorruptionError, match="it is missing, but there are data files"):
        Table.open(tmp_path, DISK)


def test_while_anything_is_torn_nothing_is_swept_before_the_stream_is_settled(tmp_path: Path) -> None:
    made(tmp_path, 2)
    flip(tmp_path / "_delta_log" / commit_name(2))
    table = Table.open(tmp_path, DISK)
    assert [file.last_seq for file in table.files] == [1]
    assert [each.file.last_seq for each in table.unreferenced()] == [2]
    assert table.sweep(0, 0) == 0
    table.settle()
    assert table.sweep(0, 0) == 1


def test_nothing_is_swept_while_a_file_is_missing(tmp_path: Path) -> None:
    table = made(tmp_path, 2)
    stray = table.write(columns([9]))
    table.discard([stray])
    (tmp_path / table.files[0].path).rename(tmp_path / "away")
    assert {file.last_seq for file in table.missing} == {1}
    assert table.sweep(0, 0) == 0
    (tmp_path / "away").rename(tmp_path / table.files[0].path)
    assert table.sweep(0, 0) == 1


def test_a_flipped_bit_of_a_checkpoint_or_its_pointer_changes_no_table(tmp_path: Path) -> None:
    table = made(tmp_path, 51)
    expected = everything(table)
    commits = tmp_path / "_delta_log"
    assert read_sums(tmp_path, DISK).version == 50
    seed = choose_seed()
    chance = random.Random(seed)
    for name in (checkpoint_name(50), "_last_checkpoint"):
        whole = (commits / name).read_bytes()
        pointer = (commits / "_last_checkpoint").read_bytes()
        for _ in range(12):
            flip(commits / name, chance.randrange(len(whole)))
            assert everything(Table.open(tmp_path, DISK)) == expected
            (commits / name).write_bytes(whole)
            (commits / "_last_checkpoint").write_bytes(pointer)


def test_damaged_checksums_of_a_checkpoint_cost_only_the_check(tmp_path: Path) -> None:
    table = made(tmp_path, 50)
    (tmp_path / SUMS).write_bytes(b"{")
    assert everything(Table.open(tmp_path, DISK)) == everything(table)
