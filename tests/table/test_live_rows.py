"""A rewrite keeps the rows that are neither dead nor below a sequence, and reads no group without any."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyroaring import BitMap64

from headwater.table import Table
from headwater.table.datafile import DataFile
from headwater.table.group_reader import GroupReader
from headwater.table.live_rows import Dead, live_columns
from headwater.table.row_group import RowGroup
from table.samples import BreakableDisk, append


class Counted(GroupReader):
    """A reader that records which groups it reads."""

    reads = 0

    def read(self, file: DataFile, index: int) -> RowGroup:
        self.reads += 1
        return super().read(file, index)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.open(tmp_path / "table", BreakableDisk())
    append(made, range(1, 11))
    append(made, range(11, 21))
    return made


def kept(table: Table, dead: Dead, first_seq: int = 1) -> tuple[list[int], int]:
    """Return the sequences that are kept, and how many groups were read."""
    reader = Counted(table._storage, table._log.partitions, lambda file: True)
    parts = list(live_columns(reader, table.files, dead, first_seq))
    return [seq for part in parts for seq in part.seqs.tolist()], reader.reads


def test_dead_rows_and_rows_below_the_first_sequence_are_left_out(table: Table) -> None:
    assert kept(table, BitMap64([2, 13, 99])) == ([1, *range(3, 13), *range(14, 21)], 2)
    assert kept(table, BitMap64(), first_seq=19) == ([19, 20], 1)


def test_a_group_of_dead_rows_is_not_read(table: Table) -> None:
    assert kept(table, BitMap64(range(1, 11))) == (list(range(11, 21)), 1)


def test_a_function_may_say_which_rows_are_dead(table: Table) -> None:
    assert kept(table, lambda seqs: np.asarray(seqs % 10 != 0)) == ([10, 20], 2)
