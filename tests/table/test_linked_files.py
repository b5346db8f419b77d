"""A file of a source's origin is the table's as it is: the commit has the metadata that its messages lack."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable
from pyroaring import BitMap64

from headwater.errors import DiskError
from headwater.model.adopted import Adopted
from headwater.model.message import Message
from headwater.table import Table, schema
from headwater.table.compaction import CompactionSettings, plan
from table.links import link_of, sourced, staged_link
from table.samples import BreakableDisk, append, columns, everything, message

NOW = 1_800_000_000_000_000_000
SOURCE_COLUMNS = ("source", "source_id", "source_base", "copied_micros")


@pytest.fixture
def disk() -> BreakableDisk:
    return BreakableDisk()


@pytest.fixture
def table(tmp_path: Path, disk: BreakableDisk) -> Table:
    return Table.open(tmp_path / "table", disk)


def reopened(table: Table) -> Table:
    return Table.open(table.directory, BreakableDisk())


def link(table: Table, seqs: Iterable[int], last_seq: int, name: str = "one", base_seq: int = 0) -> Adopted:
    """Have a table adopt a linked file behind this sequence, as much later as that is."""
    placed = link_of(staging_of(table), seqs, name, base_seq).behind(last_seq, 0, NOW + last_seq * 1000)
    table.adopt(staging_of(table), [placed], {"adoption": placed.last_seq})
    return placed


def staging_of(table: Table) -> Path:
    return table.directory.parent / "staging"


def linked(seqs: Iterable[int], last_seq: int) -> list[Message]:
    """Return what those messages are then."""
    ts = NOW + last_seq * 1000
    return [sourced(message(seq), last_seq + row, ts) for row, seq in enumerate(seqs, 1)]


def folders(table: Table) -> set[str]:
    found = (path for path in table.directory.rglob("*") if path.is_dir() and "=" in path.name)
    return {str(path.relative_to(table.directory)) for path in found}


def way_to(folder: str) -> set[str]:
    """Return a folder and all above it."""
    return {folder, *(str(parent) for parent in list(Path(folder).parents)[:-1])}


def data_of(table: Table) -> set[str]:
    return {str(path.relative_to(table.directory)) for path in table.directory.rglob("*=*/*.parquet")}


def test_its_messages_have_their_own_sequences_one_time_and_the_header(table: Table) -> None:
    append(table, range(1, 6))
    link(table, range(10, 40_010), 5)
    expected = [message(seq) for seq in range(1, 6)] + linked(range(10, 40_010), 5)
    assert everything(table) == expected
    again = reopened(table)
    assert everything(again) == expected
    assert again.files == table.files
    assert again.transaction("adoption") == 40_005
    for seq in (6, 16_389, 16_390, 40_005):
        found = again.locate(seq)
        assert found is not None
        assert seq in again.read_group(*found).seqs


def test_its_base_may_be_below_zero(table: Table) -> None:
    placed = link(table, range(1_000_000, 1_000_100), 0)
    assert placed.base_seq == -999_999
    assert everything(reopened(table)) == linked(range(1_000_000, 1_000_100), 0)


def test_where_it_came_from_may_count_from_a_base_of_its_own(table: Table) -> None:
    placed = link(table, range(5_001, 5_101), 3, base_seq=5_000)
    assert placed.copied is not None
    assert (placed.base_seq, placed.copied.source_base) == (3, 5_000)
    assert everything(reopened(table)) == linked(range(5_001, 5_101), 3)


def test_files_of_one_run_share_a_folder_and_others_have_their_own(table: Table) -> None:
    files = [link_of(staging_of(table), range(at, at + 50), f"f{at}") for at in (101, 151, 301)]
    placed: list[Adopted] = []
    for file in files:
        placed.append(file.behind(placed[-1].last_seq if placed else 0, 0, NOW))
    table.adopt(staging_of(table), placed, {})
    assert [file.base_seq for file in placed] == [-100, -100, -200]
    assert len({Path(file.path).parent for file in table.files}) == 2
    wanted = [message(seq) for seq in (*range(101, 201), *range(301, 351))]
    assert everything(table) == [sourced(m, seq, NOW) for seq, m in enumerate(wanted, 1)]


def test_the_same_call_continues_after_a_crash_at_any_step(tmp_path: Path) -> None:
    def attempt(directory: Path, fails_at: int) -> bool:
        disk = BreakableDisk()
        table = Table.open(directory / "table", disk)
        append(table, range(1, 6))
        files = [link_of(staging_of(table), range(at, at + 50), f"f{at}") for at in (101, 301)]
        one = files[0].behind(5, 0, NOW)
        placed = [one, files[1].behind(one.last_seq, 0, NOW)]
        disk.calls.clear()
        disk.refuses = lambda operation, path: len(disk.calls) == fails_at
        failed = False
        try:
            table.adopt(staging_of(table), placed, {"adoption": 105})
        except DiskError:
            failed = True
        again = reopened(table)
        if again.transaction("adoption") is None:
            again.adopt(staging_of(table), placed, {"adoption": 105})
        wanted = [message(seq) for seq in (*range(101, 151), *range(301, 351))]
        assert everything(reopened(again))[5:] == [sourced(m, seq, NOW) for seq, m in enumerate(wanted, 6)]
        assert again.sweep(0, 0) == 0
        assert list(staging_of(table).iterdir()) == []
        return failed

    steps = 1
    while attempt(tmp_path / str(steps), steps):
        steps += 1
    assert steps > 14


@pytest.mark.parametrize("made", range(6))
def test_folders_are_synced_though_another_made_some_and_died(
    table: Table, disk: BreakableDisk, made: int
) -> None:
    placed = link_of(staging_of(table), range(1, 50)).behind(7, 0, NOW)
    folder = table.directory / schema.folder_of(placed.base_seq, placed.copied)
    way = [*reversed(list(folder.parents)[:5]), folder]
    assert way[0] == table.directory
    way[made].mkdir(parents=True, exist_ok=True)
    disk.calls.clear()
    table.adopt(staging_of(table), [placed], {})
    synced = [path for operation, path in disk.calls if operation == "sync_dir"]
    # The last one that was made may not be durable in the one above it.
    assert [path for path in way if path in synced] == way[max(made - 1, 0) :]


def test_a_rewrite_makes_a_plain_file_of_it(table: Table) -> None:
    link(table, range(1, 101), 0)
    link(table, range(201, 301), 100, "two")
    dead = BitMap64([7, 150])
    expected = [m for m in everything(table) if m.seq not in dead]
    before = table.files
    table.commit(table.rewrite(before, dead, 5), before)
    again = reopened(table)
    assert everything(again) == [m for m in expected if m.seq >= 5]
    (file,) = again.files
    assert (file.copied, file.base_seq, file.first_ts, file.last_ts) == (None, 0, NOW, NOW + 100_999)
    rows = pq.ParquetFile(again.directory / file.path).read()
    assert rows["headers"].null_count == 0
    assert set(rows["time"].cast("int64").to_pylist()) == {NOW // 1000, NOW // 1000 + 100}
    adds = DeltaTable(again.directory).get_add_actions(flatten=True)
    found = {name: adds[f"partition.{name}"].to_pylist() for name in SOURCE_COLUMNS}
    assert found == {name: [None] for name in SOURCE_COLUMNS}


def test_compaction_takes_it_as_any_other(table: Table) -> None:
    for number in range(6):
        link(table, range(100 * number + 1, 100 * number + 51), 50 * number, f"f{number}")
    expected = everything(table)
    (run,) = plan(table.files, {}, 0, CompactionSettings()).rewrite
    assert len(run) == 6
    table.commit(table.rewrite(run, BitMap64(), 0), run)
    assert [file.copied for file in table.files] == [None]
    assert everything(reopened(table)) == expected
    table.sweep(0, 0)
    assert data_of(table) == {file.path for file in table.files}


def test_sweep_removes_only_unneeded_files_and_folders(table: Table) -> None:
    link(table, range(1, 51), 0)
    link(table, range(201, 251), 50, "two")
    one, two = table.files
    assert table.sweep(0, 0) == 0
    table.commit(remove=[one])
    assert table.sweep(60, 0, pinned=[one.path]) == 0
    assert table.sweep(60, 1, pinned=[]) == 0
    assert data_of(table) == {one.path, two.path}
    assert table.sweep(60, 61) == 1
    assert data_of(table) == {two.path}
    assert folders(table) == way_to(str(Path(two.path).parent))
    assert everything(reopened(table)) == linked(range(201, 251), 50)


def test_a_crash_between_rename_and_commit_leaves_what_sweep_takes(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(table, "commit", crash)
    with pytest.raises(KeyboardInterrupt):
        link(table, range(1, 51), 0)
    again = reopened(table)
    assert len(data_of(again)) == 1
    assert again.sweep(0, 0) == 1
    assert not folders(again)


def test_what_is_being_written_in_a_folder_is_removed_when_the_table_is_opened(table: Table) -> None:
    link(table, range(1, 51), 0)
    (file,) = table.files
    torn = (table.directory / file.path).with_name("part.tmp")
    torn.touch()
    assert everything(reopened(table)) == linked(range(1, 51), 0)
    assert not torn.exists()


def test_a_checkpoint_keeps_where_files_came_from(table: Table) -> None:
    expected: list[Message] = []
    for number in range(schema.CHECKPOINT_COMMITS + 10):
        at = len(expected)
        if number % 3:
            link(table, range(1000 * number + 1, 1000 * number + 4), at, f"f{number}")
            expected += linked(range(1000 * number + 1, 1000 * number + 4), at)
        else:
            append(table, range(at + 1, at + 4))
            expected += [message(seq) for seq in range(at + 1, at + 4)]
        table.maintain()
    assert list((table.directory / "_delta_log").glob("*.checkpoint.parquet"))
    # Without the commits that a checkpoint covers nothing else can tell.
    for commit in sorted((table.directory / "_delta_log").glob("*.json"))[: schema.CHECKPOINT_COMMITS]:
        commit.unlink()
    again = reopened(table)
    assert again.files == table.files
    assert everything(again) == expected


def test_its_statistics_are_those_of_the_file_and_its_times_those_of_the_copy(table: Table) -> None:
    link(table, range(10, 20), 0)
    (commit,) = (table.directory / "_delta_log").glob("*1.json")
    (add,) = [json.loads(line)["add"] for line in commit.read_text().splitlines() if '"add"' in line]
    stats = json.loads(add["stats"])
    assert (stats["minValues"]["offset"], stats["maxValues"]["offset"]) == (10, 19)
    assert stats["minValues"]["time"] < stats["maxValues"]["time"] < "2027"
    assert stats["nullCount"]["headers"] == 7
    micros = str(NOW // 1000)
    assert [add["partitionValues"][name] for name in SOURCE_COLUMNS] == ["ORDERS", "Ab1", "0", micros]
    assert add["partitionValues"]["base_seq"] == "-9"
    (file,) = reopened(table).files
    assert (file.first_ts, file.last_ts, file.headerless_rows) == (NOW, NOW, 7)
    assert file.copied is not None
    assert (file.copied.first_ts, file.copied.with_headers) == (message(10).ts // 1000 * 1000, 3)


def old_table(directory: Path) -> Table:
    """Return a table as it was made before files were linked, with some messages in it."""
    (directory / "_delta_log").mkdir(parents=True)
    DeltaTable.create(
        directory,
        schema.TABLE_1,
        partition_by="base_seq",
        configuration=schema.CONFIGURATION,
        commit_properties=CommitProperties(custom_metadata={"headwater.actions": "2"}),
    )
    return Table.open(directory, BreakableDisk())


def test_a_table_of_before_continues_as_it_was(tmp_path: Path) -> None:
    table = old_table(tmp_path / "table")
    assert not table.records_sources
    append(table, range(1, 11))
    plain = staged_link(staging_of(table), [message(seq) for seq in range(90, 95)], linked=False)
    table.adopt(staging_of(table), [plain.behind(10, 0, NOW)], {"adoption": 15})
    table = reopened(table)
    files = table.files
    table.commit(table.rewrite(files, BitMap64([3]), 0), files)
    for number in range(schema.CHECKPOINT_COMMITS + 5):
        append(table, [100 + number])
        table.maintain()
    again = reopened(table)
    assert not again.records_sources
    assert again.files == table.files
    assert [m.seq for m in everything(again)] == [1, 2, *range(4, 16), *range(100, 155)]
    assert DeltaTable(again.directory).metadata().partition_columns == ["base_seq"]
    again.sweep(0, 0)
    assert data_of(again) == {file.path for file in again.files}


def test_a_new_table_can_tell_and_one_that_is_opened_again_still_can(table: Table) -> None:
    assert table.records_sources
    table.commit([table.write(columns([1]))])
    assert reopened(table).records_sources
