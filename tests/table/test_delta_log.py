"""Commits are durable, whole or absent, and their log stays short."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from headwater.errors import DiskError
from headwater.table import plain_log, schema
from headwater.table.datafile import DataFile
from headwater.table.delta_log import ConflictError, DeltaLog
from table.samples import BreakableDisk


def file(number: int) -> DataFile:
    """Return a file that need not exist, since a log of commits never opens one."""
    first = number * 10 + 1
    return DataFile(f"data/{number}.parquet", first, 10, first, first + 9, 10, 1000, 2999, "a", "b", 10)


def commits(directory: Path) -> list[Path]:
    return sorted((directory / "_delta_log").glob("*.json"))


@pytest.fixture
def disk() -> BreakableDisk:
    return BreakableDisk()


@pytest.fixture
def log(tmp_path: Path, disk: BreakableDisk) -> DeltaLog:
    return DeltaLog.open(tmp_path, disk, "ORDERS")


def test_the_protocol_is_one_that_every_reader_knows(tmp_path: Path, log: DeltaLog) -> None:
    delta = DeltaTable(tmp_path)
    assert (delta.protocol().min_reader_version, delta.protocol().min_writer_version) == (1, 2)
    assert not delta.protocol().reader_features
    assert delta.metadata().partition_columns == [
        "base_seq",
        "source",
        "source_id",
        "source_base",
        "copied_micros",
    ]
    assert delta.metadata().name == "ORDERS"


def test_files_and_transactions_come_back_after_opening(
    tmp_path: Path, log: DeltaLog, disk: BreakableDisk
) -> None:
    log.commit([file(0), file(1)], [], {"headwater-fold": 20, "other": 7})
    log.commit([file(2)], [file(0)], {"headwater-fold": 30})
    again = DeltaLog.open(tmp_path, disk)
    assert again.take_files() == [file(1), file(2)]
    assert [again.transaction(app) for app in ("headwater-fold", "other", "nobody")] == [30, 7, None]
    assert again.version == log.version == 2


def test_a_commit_is_synced_with_its_directory(tmp_path: Path, log: DeltaLog, disk: BreakableDisk) -> None:
    disk.calls.clear()
    log.commit([file(0)], [], {})
    assert disk.calls == [
        ("sync_file", tmp_path / "_delta_log" / "00000000000000000001.json"),
        ("sync_dir", tmp_path / "_delta_log"),
    ]


@pytest.mark.parametrize("step", ["sync_file", "sync_dir"])
def test_a_commit_that_cannot_be_synced_is_taken_back(
    tmp_path: Path, log: DeltaLog, disk: BreakableDisk, step: str
) -> None:
    log.commit([file(0)], [], {"fold": 10})
    failures = iter([True])
    disk.refuses = lambda operation, path: operation == step and next(failures, False)
    with pytest.raises(DiskError):
        log.commit([file(1)], [], {"fold": 20})
    assert log.transaction("fold") == 10
    assert DeltaLog.open(tmp_path, disk).take_files() == [file(0)]
    log.commit([file(1)], [], {"fold": 20})
    again = DeltaLog.open(tmp_path, disk)
    assert (again.take_files(), again.transaction("fold")) == ([file(0), file(1)], 20)


def test_a_commit_that_cannot_be_taken_back_ends_committing(
    tmp_path: Path, log: DeltaLog, disk: BreakableDisk
) -> None:
    disk.refuses = lambda operation, path: operation in ("sync_file", "remove")
    with pytest.raises(DiskError):
        log.commit([file(0)], [], {"fold": 10})
    disk.refuses = lambda operation, path: False
    with pytest.raises(ConflictError):
        log.commit([file(1)], [], {"fold": 20})
    again = DeltaLog.open(tmp_path, disk)
    assert (again.take_files(), again.transaction("fold")) == ([file(0)], 10)


def test_a_commit_that_cannot_be_written_may_be_tried_again(
    tmp_path: Path, log: DeltaLog, disk: BreakableDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise DeltaError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(DeltaTable, "create_write_transaction", refuse)
        with pytest.raises(DiskError) as caught:
            log.commit([file(0)], [], {"fold": 10})
    assert caught.value.retryable
    log.commit([file(0)], [], {"fold": 10})
    assert DeltaLog.open(tmp_path, disk).take_files() == [file(0)]


def test_errors_of_delta_rs_are_errors_of_the_disk(
    tmp_path: Path, log: DeltaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise DeltaError("Kernel error: Io error: Input/output error (os error 5)")

    log.commit([file(0)], [], {"headwater-fold": 20})
    log.commit([file(1)], [], {"headwater-fold": 30})
    monkeypatch.setattr(plain_log, "read", lambda *_: None)  # so that delta-rs is asked
    again = DeltaLog.open(tmp_path, BreakableDisk())
    monkeypatch.setattr(DeltaTable, "transaction_version", refuse)
    monkeypatch.setattr(DeltaTable, "get_add_actions", refuse)
    monkeypatch.setattr(DeltaTable, "create_checkpoint", refuse)
    monkeypatch.setattr(schema, "CHECKPOINT_COMMITS", 1)
    with pytest.raises(DiskError):
        again.transaction("headwater-fold")
    with pytest.raises(DiskError):
        DeltaLog.open(tmp_path, BreakableDisk())
    with pytest.raises(DiskError):
        again.maintain()
    monkeypatch.undo()
    assert again.transaction("headwater-fold") == 30


def test_a_table_that_cannot_be_loaded_for_a_commit_can_be_later(
    tmp_path: Path, log: DeltaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise DeltaError("Kernel error: Io error: Too many open files (os error 24)")

    with monkeypatch.context() as patched:
        patched.setattr(DeltaTable, "__init__", refuse)
        with pytest.raises(DiskError):
            log.commit([file(0)], [], {"fold": 10})
    log.commit([file(0)], [], {"fold": 10})
    assert DeltaLog.open(tmp_path, BreakableDisk()).take_files() == [file(0)]


def test_another_writers_commit_is_not_taken_back(tmp_path: Path, log: DeltaLog, disk: BreakableDisk) -> None:
    DeltaLog.open(tmp_path, disk).commit([file(0)], [], {})
    with pytest.raises(ConflictError):
        log.commit([file(1)], [], {})
    assert DeltaLog.open(tmp_path, disk).take_files() == [file(0)]


def test_a_newest_commit_cut_anywhere_is_moved_aside(
    tmp_path: Path, log: DeltaLog, disk: BreakableDisk
) -> None:
    log.commit([file(0)], [], {"fold": 10})
    log.commit([file(1), file(2)], [file(0)], {"fold": 30})
    newest = commits(tmp_path)[-1]
    whole = newest.read_bytes()
    ends = [at for at, byte in enumerate(whole) if byte == ord("\n")]
    for length in [0, 1, len(whole) // 2, *ends, *(end + 1 for end in ends), len(whole) - 1]:
        newest.write_bytes(whole[:length])
        again = DeltaLog.open(tmp_path, disk)
        assert (again.take_files(), again.transaction("fold")) == ([file(0)], 10), length
        assert not newest.exists()
    newest.write_bytes(whole)
    assert DeltaLog.open(tmp_path, disk).take_files() == [file(1), file(2)]


def test_a_commit_of_zeros_is_moved_aside(tmp_path: Path, log: DeltaLog, disk: BreakableDisk) -> None:
    log.commit([file(0)], [], {})
    newest = commits(tmp_path)[-1]
    newest.write_bytes(bytes(newest.stat().st_size))
    assert DeltaLog.open(tmp_path, disk).take_files() == []
    assert len(list((tmp_path / "torn").iterdir())) == 1


def test_a_torn_first_commit_starts_the_table_over(
    tmp_path: Path, log: DeltaLog, disk: BreakableDisk
) -> None:
    commits(tmp_path)[0].write_bytes(b"")
    assert DeltaLog.open(tmp_path, disk).version == 0


def test_opening_makes_the_newest_commit_durable(tmp_path: Path, log: DeltaLog, disk: BreakableDisk) -> None:
    log.commit([file(0)], [], {})
    disk.calls.clear()
    DeltaLog.open(tmp_path, disk)
    newest = commits(tmp_path)[-1]
    synced = [("sync_file", newest), ("sync_dir", newest.parent)]
    assert [call for call in disk.calls if call in synced][-2:] == synced


def test_leftovers_of_writing_are_removed(tmp_path: Path, log: DeltaLog, disk: BreakableDisk) -> None:
    leftover = tmp_path / "_delta_log" / "_commit_1234.json.tmp"
    leftover.write_bytes(b"{")
    DeltaLog.open(tmp_path, disk)
    assert not leftover.exists()


def test_the_log_stays_short_through_500_commits(tmp_path: Path, log: DeltaLog, disk: BreakableDisk) -> None:
    most = 0
    for number in range(500):
        log.commit([file(number)], [file(number - 3)] if number >= 3 else [], {"fold": number})
        log.maintain()
        most = max(most, len(os.listdir(tmp_path / "_delta_log")))
    assert most <= 3 * 50 + 4
    again = DeltaLog.open(tmp_path, disk)
    assert (again.take_files(), again.transaction("fold")) == ([file(497), file(498), file(499)], 499)
    assert again.version == 500


def committed(log: DeltaLog, count: int) -> None:
    for number in range(count):
        log.commit([file(number)], [], {"fold": number})
    log.maintain()


def test_a_checkpoint_is_synced_before_commits_are_removed(
    tmp_path: Path, log: DeltaLog, disk: BreakableDisk
) -> None:
    committed(log, 50)
    disk.calls.clear()
    for number in range(50, 100):
        log.commit([file(number)], [], {})
    disk.calls.clear()
    log.maintain()
    operations = [operation for operation, _ in disk.calls]
    assert operations[:3] == ["sync_file", "sync_file", "sync_dir"]
    assert operations[3:5] == ["rename", "sync_dir"], "its checksums"
    assert set(operations[5:]) == {"remove"}
    assert len(commits(tmp_path)) == 51


def test_a_torn_checkpoint_is_moved_aside(tmp_path: Path, log: DeltaLog, disk: BreakableDisk) -> None:
    committed(log, 50)
    checkpoint = next((tmp_path / "_delta_log").glob("*.checkpoint.parquet"))
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    again = DeltaLog.open(tmp_path, disk)
    assert len(again.take_files()) == 50
    assert not checkpoint.exists()


@pytest.mark.parametrize("content", [b"", b'{"vers', b'{"version": 9999}', b"7"])
def test_a_torn_pointer_to_the_checkpoint_is_removed(
    tmp_path: Path, log: DeltaLog, disk: BreakableDisk, content: bytes
) -> None:
    committed(log, 50)
    (tmp_path / "_delta_log" / "_last_checkpoint").write_bytes(content)
    again = DeltaLog.open(tmp_path, disk)
    assert (len(again.take_files()), again.transaction("fold")) == (50, 49)


def test_rows_that_only_move_are_no_change_of_data(tmp_path: Path, log: DeltaLog) -> None:
    log.commit([file(0), file(1)], [], {})
    log.commit([file(5)], [file(0)], {})
    merged = DataFile("data/new.parquet", 11, 10, 11, 20, 10, 1000, 2999)
    log.commit([merged], [file(1)], {})
    changes = [
        {
            action[kind]["path"]: action[kind]["dataChange"]
            for action in map(json.loads, path.read_text().splitlines())
            for kind in ("add", "remove")
            if kind in action
        }
        for path in commits(tmp_path)[-2:]
    ]
    assert changes == [
        {"data/5.parquet": True, "data/0.parquet": True},
        {"data/new.parquet": False, "data/1.parquet": False},
    ]


def test_a_number_that_is_committed_while_it_is_looked_up_is_the_valid_one(
    log: DeltaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OlderVersion:
        """Finds no number, and is overtaken by a commit of another thread."""

        def transaction_version(self, app: str) -> None:
            log._transactions.update({app: 7})

    monkeypatch.setattr(log, "_delta", OlderVersion())
    assert log.transaction("fold") == 7
    assert log.transaction("fold") == 7


def test_the_checkpoint_holds_the_transactions(tmp_path: Path, log: DeltaLog) -> None:
    committed(log, 50)
    checkpoint = next((tmp_path / "_delta_log").glob("*.checkpoint.parquet"))
    transactions = [row for row in pq.read_table(checkpoint)["txn"].to_pylist() if row]
    assert [(row["appId"], row["version"]) for row in transactions] == [("fold", 49)]


def test_a_commit_of_another_writer_is_never_followed_by_ours(tmp_path: Path, disk: BreakableDisk) -> None:
    fenced = DeltaLog.open(tmp_path, disk)
    fenced.commit([file(0)], [], {})
    owner = DeltaLog.open(tmp_path, disk)
    owner.commit([file(1)], [], {})
    with pytest.raises(ConflictError, match="another writer has committed"):
        fenced.commit([file(2)], [], {})
    assert DeltaLog.open(tmp_path, disk).take_files() == [file(0), file(1)]
