"""Row groups are read with their checksums, and a failed read is damage or a file that was replaced."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headwater.errors import CorruptionError
from headwater.table import Table, group_reader
from headwater.table.datafile import DataFile
from headwater.table.delta_log import ConflictError
from headwater.table.group_reader import GroupReader
from headwater.table.table_storage import LocalTableStorage
from table.samples import BreakableDisk, append, message


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table.open(tmp_path / "table", BreakableDisk())


def reader_of(table: Table, current: list[DataFile] | None = None) -> GroupReader:
    """Return a reader that takes these files for the current ones, by default all of the table's."""
    files = list(table.files) if current is None else current
    storage = LocalTableStorage(table.directory, BreakableDisk())
    return GroupReader(storage, table._log.partitions, lambda file: file in files)


def test_groups_and_messages_are_those_of_the_file(table: Table) -> None:
    append(table, range(1, 11))
    (file,) = table.files
    reader = reader_of(table)
    assert reader.known_groups(file) is None
    assert reader.groups(file) == ((1, 10),)
    assert reader.known_groups(file) == ((1, 10),)
    assert [reader.read(file, 0).message(row) for row in (0, 9)] == [message(1), message(10)]
    assert reader.latest_times(file) >= (file.last_ts,)


def test_only_the_footers_used_last_stay_in_memory(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_reader, "KEPT_FOOTERS", 2)
    for seq in (1, 2, 3):
        append(table, range(seq, seq + 1))
    reader = reader_of(table)
    first, second, third = table.files
    for file in (first, second, first, third):
        reader.groups(file)
    assert [reader.known_groups(file) is None for file in (first, second, third)] == [False, True, False]
    reader.forget([first])
    assert reader.known_groups(first) is None
    reader.clear()
    assert reader.known_groups(third) is None


def test_a_missing_file_is_damage_while_the_table_names_it_and_a_conflict_afterwards(table: Table) -> None:
    append(table, range(1, 3))
    (file,) = table.files
    (table.directory / file.path).unlink()
    with pytest.raises(CorruptionError, match="the file is missing"):
        reader_of(table).groups(file)
    with pytest.raises(ConflictError, match="was replaced"):
        reader_of(table, current=[]).groups(file)


def test_a_file_that_is_not_what_its_commit_says_is_refused(table: Table) -> None:
    append(table, range(1, 3))
    (file,) = table.files
    with pytest.raises(CorruptionError, match="does not match its entry"):
        reader_of(table).groups(replace(file, rows=1))
