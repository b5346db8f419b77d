"""Records of NATS Streaming are checked without changing them, and cleared of what is damaged."""

from __future__ import annotations

from pathlib import Path

from headwater.stan import records
from headwater.stan.clients import Client
from headwater.stan.records import Records
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
    assert "1 damaged rows were taken out" in said
    kept = Records(path)
    assert [client.client_id for client in kept.clients()] == ["one"]
    kept.close()


def test_a_file_that_cannot_be_read_goes_to_quarantine(tmp_path: Path) -> None:
    path = made(tmp_path)
    path.write_bytes(b"no database" * 100)
    quarantine = Quarantine(tmp_path, DISK)
    (said,) = stan_check.repair(tmp_path, quarantine, False)
    assert "cannot be read" in said
    assert (quarantine.folder / "stan.A.db").exists()
    assert stan_check.check(tmp_path) == []
