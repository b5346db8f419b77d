"""Records of NATS Streaming are checked without changing them, and cleared of what is damaged."""

from __future__ import annotations

import os
import shutil
import sqlite3
from errno import ENOSPC
from pathlib import Path

import pytest

from headwater.control.wal_file import wal_path
from headwater.errors import DiskError
from headwater.stan import records
from headwater.stan.clients import Client
from headwater.stan.flow import ChannelFlow
from headwater.stan.records import Records, RecordsError
from headwater.stan.subscription import FlowKey, SharedFlow
from headwater.store import stan_check
from headwater.store.finding import Kind
from headwater.store.quarantine import Quarantine
from store.stores import DISK, flip


def made(store: Path) -> Path:
    path = store / "stan.A.db"
    kept = Records(path)
    kept.write([records.add_client(Client(name, "inbox", b"x", 1, 5, 3)) for name in ("one", "two")])
    kept.close()
    return path


def test_whole_records_have_nothing_to_report(tmp_path: Path) -> None:
    made(tmp_path)
    assert stan_check.check(tmp_path) == []
    assert stan_check.repair(tmp_path, Quarantine(tmp_path, DISK), False) == []


def test_a_damaged_row_goes_and_the_others_stay(tmp_path: Path) -> None:
    path = made(tmp_path)
    flip(path, path.read_bytes().index(b"twoinbox") + 4)
    assert [found.kind for found in stan_check.check(tmp_path)] == [Kind.STAN]
    assert len(stan_check.repair(tmp_path, Quarantine(tmp_path, DISK), True)) == 1
    (said,) = stan_check.repair(tmp_path, Quarantine(tmp_path, DISK), False)
    assert "removed 1 damaged row" in said
    kept = Records(path)
    assert [client.client_id for client in kept.clients()] == ["one"]
    kept.close()


def killed(store: Path, count: int = 6) -> Path:
    """Return records as a kill leaves them, with transactions in the write-ahead log alone."""
    (store / "made").mkdir()
    path = store / "stan.A.db"
    kept = Records(store / "made" / path.name)
    for number in range(count):
        kept.write([records.add_client(Client(f"client{number}", "inbox", b"x", 1, 5, 3))])
        flow = SharedFlow(number + 1, FlowKey("foo", f"client{number}", "dur"), ChannelFlow(9, [3, 4]))
        kept.write([records.add_flow(flow)])
    for suffix in ("", "-wal"):
        shutil.copyfile(store / "made" / (path.name + suffix), path.with_name(path.name + suffix))
    kept.close()
    shutil.rmtree(store / "made")
    return path


@pytest.mark.parametrize("at", [0, 9, 20, 40, 300, 0.3, 0.5])
def test_a_damaged_write_ahead_log_is_refused_and_recovered(tmp_path: Path, at: float) -> None:
    path = killed(tmp_path)
    wal = wal_path(path)
    place = int(at * wal.stat().st_size) if isinstance(at, float) else at
    flip(wal, place)
    damaged = wal.read_bytes()
    with pytest.raises(RecordsError, match="SQLite would ignore later transactions"):
        Records(path)
    assert [found.kind for found in stan_check.check(tmp_path)] == [Kind.STAN]
    quarantine = Quarantine(tmp_path, DISK)
    done = stan_check.repair(tmp_path, quarantine, False)
    assert "its transactions were recovered" in done[0]
    assert (quarantine.folder / wal.name).read_bytes() == damaged
    kept = Records(path)
    # The flipped bit itself may have been in a row, which is gone then, but no later transaction is.
    assert len(kept.clients()) + len(kept.flows()) >= 10
    assert kept.flows()[-1].last_sent == 9
    kept.close()
    assert stan_check.check(tmp_path) == []


def test_what_cannot_be_recovered_falls_back_to_what_was_before(tmp_path: Path) -> None:
    path = killed(tmp_path)
    wal = wal_path(path)
    content = bytearray(wal.read_bytes())
    middle = 32 + (len(content) - 32) // 4120 // 2 * 4120
    content[middle + 24 : middle + 4120] = bytes(4096)
    last = 32 + ((len(content) - 32) // 4120 - 1) * 4120
    content[last + 24 : last + 60] = bytes(36)
    wal.write_bytes(content)
    done = stan_check.repair(tmp_path, Quarantine(tmp_path, DISK), False)
    assert any("messages are delivered again" in line or "recovered" in line for line in done), done
    Records(path).close()
    assert stan_check.check(tmp_path) == []


def test_a_file_that_cannot_be_read_goes_to_quarantine(tmp_path: Path) -> None:
    path = made(tmp_path)
    path.write_bytes(b"no database" * 100)
    quarantine = Quarantine(tmp_path, DISK)
    (said,) = stan_check.repair(tmp_path, quarantine, False)
    assert "cannot be read" in said
    assert (quarantine.folder / "stan.A.db").exists()
    assert stan_check.check(tmp_path) == []


def full(*args: object) -> int:
    """Fail as SQLite does when the disk is full."""
    db = sqlite3.connect(":memory:")
    db.execute("PRAGMA max_page_count = 1")
    db.execute("CREATE TABLE t (c)")
    raise AssertionError


def test_a_full_disk_costs_no_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path)
    flip(path, path.read_bytes().index(b"twoinbox") + 4)
    with monkeypatch.context() as patched:
        patched.setattr(stan_check, "drop_damaged", full)
        with pytest.raises(DiskError):
            stan_check.repair(tmp_path, Quarantine(tmp_path, DISK), False)
    stan_check.repair(tmp_path, Quarantine(tmp_path, DISK), False)
    kept = Records(path)
    assert [client.client_id for client in kept.clients()] == ["one"]
    kept.close()


def test_a_disk_that_is_full_in_the_middle_of_a_write_ahead_log_costs_no_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = killed(tmp_path)
    wal = wal_path(path)
    flip(wal, 300)

    write = Path.write_bytes

    def write_bytes(target: Path, data: bytes) -> int:
        if target != wal:
            return write(target, data)
        write(target, data[: len(data) // 3])
        raise OSError(ENOSPC, "No space left on device")

    def write_vector(fd: int, buffers: list[bytes]) -> int:
        raise OSError(ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", write_bytes)
        patched.setattr(os, "writev", write_vector)
        with pytest.raises((OSError, DiskError)):
            stan_check.repair(tmp_path, Quarantine(tmp_path, DISK), False)
    stan_check.repair(tmp_path, Quarantine(tmp_path, DISK), False)
    kept = Records(path)
    assert len(kept.clients()) + len(kept.flows()) >= 10
    kept.close()
