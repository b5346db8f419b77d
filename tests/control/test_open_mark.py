"""A write-ahead log that is missing is noticed, also where SQLite opens the file without it."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from headwater.control.catalog import Catalog
from headwater.control.catalog_file import CatalogError
from headwater.control.catalog_rows import StreamRow
from headwater.control.open_mark import SUFFIX, OpenMark
from headwater.disk import RealDisk
from headwater.stan import records
from headwater.stan.clients import Client
from headwater.stan.records import Records, RecordsError
from headwater.store import stan_check
from headwater.store.finding import Kind
from headwater.store.quarantine import Quarantine
from headwater.store.survey import compare, read_catalog


class OwnedBy:
    """A fence that is never lost."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def check(self) -> None:
        """Return: the store is ours."""


def row(name: str) -> StreamRow:
    return StreamRow("A", name, "{}", 7, f"id-{name}", name)


def killed(path: Path, made: Path) -> None:
    """Copy the files of a database as a kill leaves them."""
    path.parent.mkdir(exist_ok=True)
    for suffix in ("", "-wal", SUFFIX):
        shutil.copyfile(made.with_name(made.name + suffix), path.with_name(path.name + suffix))


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """Return a catalog whose second owner was killed."""
    made, left = tmp_path / "made" / "catalog.db", tmp_path / "left" / "catalog.db"
    made.parent.mkdir()
    first = Catalog(made, fence=OwnedBy(1))
    first.create(row("old"))
    first.close()
    assert sorted(path.name for path in made.parent.iterdir()) == ["catalog.db"]
    second = Catalog(made, fence=OwnedBy(2))
    second.claim()
    second.create(row("new"))
    killed(left, made)
    second.close()
    return left


def test_after_a_kill_the_log_is_there_and_nothing_is_lost(catalog: Path) -> None:
    again = Catalog(catalog, fence=OwnedBy(3))
    assert {each.name for each in again.streams("A")} == {"old", "new"}
    again.claim()
    assert OpenMark(catalog).left_at == 0, "the log is there"
    again.close()
    assert not catalog.with_name(catalog.name + SUFFIX).exists()


def test_a_missing_log_is_refused_and_reported(catalog: Path) -> None:
    catalog.with_name("catalog.db-wal").unlink()
    for _ in range(2):  # opening the file does not make the mark useless
        with pytest.raises(CatalogError, match=r"catalog.db-wal is missing .*`headwater store repair`"):
            Catalog(catalog, fence=OwnedBy(3))
    view = read_catalog(catalog.parent)
    assert "last transactions are lost" in view.problem
    assert str(catalog.parent) in view.problem
    assert [found.kind for found in compare(catalog.parent, [], view)] == [Kind.CATALOG]


def test_a_log_that_another_program_moved_into_the_file_is_no_problem(
    catalog: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = sqlite3.connect(catalog)
    other.execute("SELECT count(*) FROM streams").fetchone()
    other.close()
    assert not catalog.with_name("catalog.db-wal").exists()
    again = Catalog(catalog, fence=OwnedBy(3))
    assert {each.name for each in again.streams("A")} == {"old", "new"}
    again.close()
    assert "if no other program has opened the file, transactions are lost" in caplog.text


def test_an_engine_that_lost_the_store_leaves_the_mark_of_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    old, new = Catalog(path, fence=OwnedBy(1)), Catalog(path, fence=OwnedBy(2))
    old.claim()
    new.claim()
    old.close()
    assert path.with_name(path.name + SUFFIX).read_bytes() == b"2"
    new.close()


def test_a_mark_that_cannot_be_written_or_read_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    path.with_name(path.name + SUFFIX).mkdir()
    catalog = Catalog(path, fence=OwnedBy(1))
    catalog.claim()
    catalog.close()
    Catalog(path, fence=OwnedBy(2)).close()


def test_records_of_nats_streaming_without_their_log_are_refused_then_used_as_they_are(
    tmp_path: Path,
) -> None:
    made, left = tmp_path / "made" / "stan.A.db", tmp_path / "left" / "stan.A.db"
    made.parent.mkdir()
    for epoch, name in ((1, "old"), (2, "new")):
        kept = Records(made, OwnedBy(epoch))
        kept.write([records.add_client(Client(name, "inbox", b"x", 1, 5, 3))])
        if epoch == 2:
            killed(left, made)
        kept.close()
    left.with_name("stan.A.db-wal").unlink()
    with pytest.raises(RecordsError, match=r"stan.A.db-wal is missing"):
        Records(left, OwnedBy(3))
    (found,) = stan_check.check(left.parent)
    assert "last transactions are lost" in found.what
    (said,) = stan_check.repair(left.parent, Quarantine(left.parent, RealDisk()), False)
    assert "messages are delivered again" in said
    assert stan_check.check(left.parent) == []
    again = Records(left, OwnedBy(3))
    assert [client.client_id for client in again.clients()] == ["old"]
    again.close()
