"""What a journal gets of a store: whole databases, addresses of tables, and nothing of one machine."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from pathlib import Path

import pytest

from headwater.control.catalog import Catalog
from headwater.control.ownership import Ownership
from headwater.control.sqlite_file import open_database
from headwater.journal.journal_copy import JournalCopy
from headwater.journal.opened_head import open_journal
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.store.copy_source import CopyError, StoreContents, read_directory
from headwater.store.journaled_contents import JournaledContents, for_journal, read_journal
from headwater.store.rebuilt_head import journal_settings
from headwater.table.remote_table import read_remote
from journals import Head, folder_journal
from store import stores


@pytest.fixture
def store(tmp_path: Path) -> Path:
    asyncio.run(stores.make(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture
def tables(tmp_path: Path) -> Bucket:
    return Bucket(BucketAddress(f"file://{tmp_path}/tables"))


def prepared(contents: StoreContents, tables: Bucket, tmp_path: Path) -> JournaledContents:
    scratch = tmp_path / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    return for_journal(contents, tables, scratch)


def test_each_stream_gets_the_address_of_its_table(store: Path, tables: Bucket, tmp_path: Path) -> None:
    found = {item.name: item for item in prepared(read_directory(store), tables, tmp_path).contents.items}
    home = tmp_path / "home"
    home.mkdir()
    (home / "table").write_bytes(found["head/$G/ORDERS/table"].read())
    remote = read_remote(stores.DISK, home)
    assert remote is not None
    assert remote.address == f"file://{tmp_path}/tables/$G/ORDERS/table"
    assert all(len(item.read()) == item.size for item in found.values())
    assert "head/$G/MEM/declared.json" in found
    assert "head/$G/MEM/table" not in found


def test_a_write_ahead_log_becomes_part_of_its_database(store: Path, tables: Bucket, tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    shutil.copytree(store, killed)
    catalog = Catalog(store / "catalog.db")
    catalog.adopt_id("a-later-id")
    # Copied while the file is open, as a kill leaves it: the last transaction is only in the log.
    for name in ("catalog.db", "catalog.db-wal"):
        shutil.copyfile(store / name, killed / name)
    catalog.close()
    contents = prepared(read_directory(killed), tables, tmp_path).contents
    found = {item.name: item.read() for item in contents.items}
    assert not [name for name in found if name.endswith(("-wal", "-open", "/epoch"))]
    (tmp_path / "read").mkdir()
    (tmp_path / "read" / "catalog.db").write_bytes(found["head/catalog.db"])
    db = open_database(tmp_path / "read" / "catalog.db")
    assert db.execute("SELECT value FROM store WHERE key = 'id'").fetchone() == ("a-later-id",)
    db.close()


def test_the_epoch_is_the_highest_of_the_store(store: Path, tables: Bucket, tmp_path: Path) -> None:
    ownership = Ownership(store)
    ownership.take(above=40)
    assert prepared(read_directory(store), tables, tmp_path).epoch == 41
    (store / "epoch").write_bytes(b"damaged")
    assert prepared(read_directory(store), tables, tmp_path).epoch == 0


def test_damaged_records_of_streaming_are_not_copied(store: Path, tables: Bucket, tmp_path: Path) -> None:
    (store / "stan.$G.db").write_bytes(b"this is no database" * 300)
    with pytest.raises((CopyError, Exception)) as error:
        prepared(read_directory(store), tables, tmp_path)
    assert not isinstance(error.value, AssertionError | sqlite3.Error), error.value


def test_the_store_in_a_journal_is_read_once_no_engine_serves_it(
    store: Path, tables: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = journal_settings(f"file://{tmp_path}/journal")
    journal = open_journal(settings)
    copy = JournalCopy(journal)
    wanted = prepared(read_directory(store), tables, tmp_path)
    copy.begin(wanted.epoch)
    for item in wanted.contents.items:
        if item.name.startswith("head/"):
            copy.put(item.name.removeprefix("head/"), item.read())
    copy.finish()

    def read() -> StoreContents:
        shutil.rmtree(tmp_path / "folder", ignore_errors=True)
        (tmp_path / "folder").mkdir()
        return read_journal(settings, tables, tmp_path / "folder", tables_stay=True)

    contents = read()
    wanted_names = {item.name for item in wanted.contents.items if item.name.startswith("head/")}
    assert {item.name for item in contents.items} == wanted_names
    contents.require_unchanged()
    head = Head(folder_journal(tmp_path / "journal"), tmp_path / "engine")
    with pytest.raises(CopyError, match="an engine has taken over the store during the copy"):
        contents.require_unchanged()
    with pytest.raises(CopyError, match=r"an engine serves the store in file:.*: stop it first"):
        read()
    # An engine that was lost left no last record; the journal is silent after it.
    head.shipper.close()
    other = Head(folder_journal(tmp_path / "journal"), tmp_path / "engine")
    monkeypatch.setattr("headwater.store.journaled_contents.SILENCE_S", 0.0)
    read()
    other.shipper.close()
    with pytest.raises(CopyError, match=r"the table of EVENTS is in .*, not below file:///other"):
        read_journal(settings, Bucket(BucketAddress("file:///other")), tmp_path / "folder", tables_stay=True)
