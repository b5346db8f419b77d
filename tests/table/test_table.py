"""A table holds a stream's body through commits, rewrites, sweeps and crashes."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from headwater.errors import CorruptionError, DiskError
from headwater.model.message import Message
from headwater.table import Table
from headwater.table.compaction import CompactionSettings, dead_rows, most_files, plan
from headwater.table.delta_log import ConflictError
from headwater.table.schema import folder_of
from table.samples import BreakableDisk, append, columns, columns_of, everything, message, runs_of_messages


@pytest.fixture
def disk() -> BreakableDisk:
    return BreakableDisk()


@pytest.fixture
def table(tmp_path: Path, disk: BreakableDisk) -> Table:
    return Table.open(tmp_path / "table", disk)


def reopened(table: Table) -> Table:
    """Return the table as a new process finds it."""
    return Table.open(table.directory, BreakableDisk())


def data_of(table: Table) -> set[str]:
    """Return the data files on disk."""
    found = (path for path in table.directory.glob("base_seq=*/**/*") if path.is_file())
    return {str(path.relative_to(table.directory)) for path in found}


def test_a_new_table_is_empty(table: Table) -> None:
    assert table.files == ()
    assert table.transaction("headwater-fold") is None
    assert table.locate(1) is None


def test_what_is_committed_is_there_after_opening(table: Table) -> None:
    append(table, range(1, 101))
    append(table, range(101, 151))
    again = reopened(table)
    assert again.files == table.files
    assert again.transaction("headwater-fold") == 150
    assert everything(again) == [message(seq) for seq in range(1, 151)]


@settings(max_examples=25, deadline=None)
@given(st.lists(runs_of_messages(max_size=8), min_size=1, max_size=4), st.sampled_from(["none", "s2"]))
def test_any_messages_come_back_after_opening(runs: list[list[Message]], compression: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        table = Table.open(Path(directory) / "t", BreakableDisk(), compression=compression)
        expected: list[Message] = []
        for run in runs:
            after = expected[-1].seq if expected else 0
            moved = [m._replace(seq=m.seq + after) for m in run]
            table.commit([table.write(columns_of(moved))])
            expected += moved
        again = reopened(table)
        assert everything(again) == expected
        assert again.files == table.files
        for file in again.files:
            inside = [m for m in expected if file.first_seq <= m.seq <= file.last_seq]
            assert all(file.first_ts <= m.ts <= file.last_ts for m in inside)
            assert file.rows == len(inside)


def test_a_file_gets_its_place_when_it_is_committed(table: Table) -> None:
    file = table.place(table.write(columns([1, 2, 4])), 1000)
    assert table.sweep(0, 0) == 0
    table.commit([file])
    again = reopened(table)
    (file,) = again.files
    assert again.read_group(file, 0).seqs.tolist() == [1001, 1002, 1004]
    again.commit(again.rewrite([file], BitMap64(), 1), [file])
    assert again.sweep(0, 0) == 1
    assert not (again.directory / "base_seq=1000").exists()
    assert [m.seq for m in everything(again)] == [1001, 1002, 1004]


def test_every_sequence_is_located_and_no_other(table: Table) -> None:
    rows = [Message(seq, 1, b"a", b"", b"%d" % seq) for seq in range(1, 40_001)]
    table.commit([table.write(columns_of(rows)), table.write(columns([50_000, 50_002]))])
    for seq in (1, 16_384, 16_385, 32_769, 40_000, 50_000, 50_002):
        found = table.locate(seq)
        assert found is not None
        assert seq in table.read_group(*found).seqs
    assert [table.locate(seq) for seq in (0, 40_001, 49_999, 50_003)] == [None] * 4


def test_a_sequence_between_two_groups_is_in_none(table: Table) -> None:
    seqs = [*range(1, 16_385), *range(20_000, 20_010)]
    table.commit([table.write(columns_of([Message(seq, 1, b"a", b"", b"") for seq in seqs]))])
    assert table.groups(table.files[0]) == ((1, 16_384), (20_000, 20_009))
    assert table.locate(18_000) is None


def test_a_commit_of_nothing_is_none(table: Table) -> None:
    table.commit()
    assert table.version == reopened(table).version == 0


def test_overlapping_files_are_refused(table: Table) -> None:
    append(table, range(1, 11))
    with pytest.raises(ConflictError):
        append(table, range(10, 12))
    assert everything(reopened(table)) == [message(seq) for seq in range(1, 11)]


def test_removing_what_is_not_there_is_refused(table: Table) -> None:
    append(table, range(1, 11))
    (file,) = table.files
    table.commit(remove=[file])
    with pytest.raises(ConflictError):
        table.commit(remove=[file])
    assert reopened(table).files == ()


def test_a_commit_that_cannot_be_synced_changes_nothing(table: Table, disk: BreakableDisk) -> None:
    append(table, range(1, 11))
    file = table.write(columns(range(11, 21)))
    disk.refuses = lambda operation, path: operation == "sync_file"
    with pytest.raises(DiskError):
        table.commit([file], transactions={"headwater-fold": 20})
    assert (len(table.files), table.transaction("headwater-fold")) == (1, 10)
    assert len(reopened(table).files) == 1
    disk.refuses = lambda operation, path: False
    table.commit([file], transactions={"headwater-fold": 20})
    assert everything(reopened(table)) == [message(seq) for seq in range(1, 21)]


def test_a_crash_between_write_and_commit_leaves_an_orphan_that_is_swept(table: Table) -> None:
    append(table, range(1, 11))
    orphan = table.write(columns(range(11, 21)))
    again = reopened(table)
    assert again.sweep(60, 1000) == 0
    assert again.sweep(60, 1059) == 0
    assert orphan.path in data_of(again)
    assert again.sweep(60, 1060) == 1
    assert data_of(again) == {file.path for file in again.files}


def test_a_half_written_file_is_removed_on_opening(table: Table) -> None:
    leftover = table.directory / folder_of(0) / "part-1234.tmp"
    leftover.parent.mkdir(parents=True)
    leftover.write_bytes(b"PAR1")
    reopened(table)
    assert not leftover.exists()


def test_a_file_that_waits_for_its_commit_is_not_swept(table: Table) -> None:
    file = table.write(columns(range(1, 11)))
    assert table.sweep(0, 1000) == 0
    table.commit([file])
    assert len(everything(table)) == 10


def test_a_discarded_file_is_swept(table: Table) -> None:
    file = table.write(columns(range(1, 11)))
    table.discard([file])
    assert table.sweep(0, 1000) == 1
    assert data_of(table) == set()


def test_a_replaced_file_stays_for_its_grace_and_while_pinned(table: Table) -> None:
    append(table, range(1, 11))
    (old,) = table.files
    table.commit(table.rewrite([old], BitMap64([3]), 1), [old])
    assert table.sweep(60, 0) == 0
    assert table.read_group(old, 0).seqs.tolist() == list(range(1, 11))
    assert table.sweep(60, 100, pinned=[old.path]) == 0
    assert table.sweep(60, 200) == 0, "the grace begins when the pin is gone"
    assert table.sweep(60, 260) == 1
    with pytest.raises(ConflictError):
        table.read_group(old, 0)


def test_a_sweep_does_bounded_work(table: Table) -> None:
    folder = table.directory / folder_of(0)
    folder.mkdir(parents=True)
    for number in range(300):
        (folder / f"part-{number}-00000000.parquet").write_bytes(b"")
    assert table.sweep(0, 0) == 256
    assert table.sweep(0, 0) == 44


def test_a_rewrite_merges_files_and_leaves_out_the_dead(table: Table) -> None:
    for start in range(1, 101, 10):
        append(table, range(start, start + 10))
    dead = BitMap64([*range(20, 35), 50, 99])
    old = table.files
    table.commit(table.rewrite(old, dead, 7), old, {"upstream": 5})
    again = reopened(table)
    assert len(again.files) == 1
    assert everything(again) == [message(seq) for seq in range(7, 101) if seq not in dead]
    assert again.transaction("headwater-fold") == 100


def test_a_rewrite_takes_a_rule_in_place_of_a_set(table: Table) -> None:
    append(table, range(1, 11))
    table.commit(table.rewrite(table.files, lambda seqs: seqs % 2 == 0, 1), table.files)
    assert [m.seq for m in everything(table)] == [1, 3, 5, 7, 9]


def test_a_rewrite_of_dead_rows_only_writes_nothing(table: Table) -> None:
    append(table, range(1, 11))
    assert table.rewrite(table.files, BitMap64(range(1, 6)), 6) != []
    assert table.rewrite(table.files, BitMap64(range(6, 11)), 6) == []


def test_a_rewrite_splits_what_is_too_large(table: Table) -> None:
    rows = [Message(seq, 1, b"a", b"", b"%d" % seq) for seq in range(1, 100_001)]
    append(table, [200_000])
    table.commit([table.write(columns_of(rows))])
    files = table.rewrite(table.files, BitMap64(), 1, max_rows=40_000)
    assert len(files) == 3
    table.commit(files, table.files)
    assert [m.seq for m in everything(table)] == [*range(1, 100_001), 200_000]


def test_a_rewrite_of_scattered_sequences_leaves_out_the_dead(table: Table) -> None:
    seqs = [1, 10**9, 5 * 10**9, 10**12]
    append(table, seqs)
    table.commit(table.rewrite(table.files, BitMap64([10**9, 7]), 1), table.files)
    assert [m.seq for m in everything(table)] == [1, 5 * 10**9, 10**12]


def test_a_rewrite_that_fails_leaves_only_what_sweep_takes(table: Table, disk: BreakableDisk) -> None:
    rows = [Message(seq, 1, b"a", b"", b"") for seq in range(1, 40_001)]
    table.commit([table.write(columns_of(rows))])
    syncs = iter([False])
    disk.refuses = lambda operation, path: operation == "sync_file" and next(syncs, True)
    with pytest.raises(DiskError):
        table.rewrite(table.files, BitMap64(), 1, max_rows=16_384)
    disk.refuses = lambda operation, path: False
    assert table.sweep(0, 0) == 1
    assert data_of(table) == {file.path for file in table.files}


def test_a_damaged_file_is_never_rewritten(table: Table) -> None:
    append(table, range(1, 11))
    path = table.directory / table.files[0].path
    path.write_bytes(path.read_bytes().replace(b"payload 3", b"payload 4"))
    with pytest.raises(CorruptionError):
        table.rewrite(table.files, BitMap64(), 1)


def test_a_file_that_was_taken_away_is_damage(table: Table) -> None:
    append(table, range(1, 11))
    (table.directory / table.files[0].path).unlink()
    with pytest.raises(CorruptionError, match="missing"):
        table.read_group(table.files[0], 0)


def test_a_torn_newest_commit_takes_back_only_itself(table: Table) -> None:
    append(table, range(1, 11))
    append(table, range(11, 21))
    newest = max((table.directory / "_delta_log").glob("*.json"))
    newest.write_bytes(newest.read_bytes()[:-20])
    again = reopened(table)
    assert again.transaction("headwater-fold") == 10
    append(again, range(11, 21))
    assert everything(reopened(again)) == [message(seq) for seq in range(1, 21)]


def test_readers_see_whole_commits_while_another_thread_changes_the_table(table: Table) -> None:
    append(table, range(1, 11))
    done = threading.Event()
    wrong: list[str] = []

    def read() -> None:
        while not done.is_set():
            files = table.files
            seqs = np.concatenate([table.read_group(file, 0).seqs for file in files])
            if seqs.tolist() != list(range(1, len(seqs) + 1)):
                wrong.append(str(seqs))

    reader = threading.Thread(target=read)
    reader.start()
    for start in range(11, 200, 10):
        append(table, range(start, start + 10))
        if len(table.files) == 4:
            table.commit(table.rewrite(table.files, BitMap64(), 1), table.files)
        table.maintain()
    done.set()
    reader.join()
    assert wrong == []
    assert len(everything(table)) == 200


def test_a_dropped_table_is_gone(table: Table) -> None:
    append(table, range(1, 11))
    table.drop()
    assert not table.directory.exists()
    assert table.files == ()


def test_folding_and_compacting_keeps_every_live_message_in_few_files(table: Table) -> None:
    goal = CompactionSettings(target_file_bytes=1 << 30, target_file_rows=2000, max_small_files=8)
    deleted, first_seq = BitMap64(), 1
    for start in range(1, 6001, 60):
        append(table, range(start, start + 60))
        deleted.update(range(start, start + 60, 7))
        first_seq = max(1, start - 3000)
        todo = plan(
            table.files, {f.path: dead_rows(f, deleted, first_seq) for f in table.files}, first_seq, goal
        )
        table.commit(remove=todo.drop)
        for run in todo.rewrite:
            table.commit(table.rewrite(run, deleted, first_seq, max_rows=goal.target_file_rows), run)
        table.maintain()
        live = (start + 60 - first_seq) * 6 / 7
        assert len(table.files) <= most_files(live / goal.target_file_rows, goal) + 1
    table.sweep(0, 0)
    again = reopened(table)
    served = [m.seq for m in everything(again) if m.seq >= first_seq and m.seq not in deleted]
    assert served == [seq for seq in range(first_seq, 6001) if seq not in deleted]
    assert data_of(again) == {file.path for file in again.files}
