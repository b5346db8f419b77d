"""The tables of a store in a bucket: one store each, a place for each stream, nothing guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakable_objects import BreakableObjects, ObjectFault
from headwater.disk import RealDisk
from headwater.errors import SettingsError
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.table import Table
from headwater.table.bucket_tables import OWNER, BucketTables, TablePlaceError, require_local
from headwater.table.remote_table import RemoteTable, read_remote, write_remote
from table.samples import columns

DISK = RealDisk(sync=False)


@pytest.fixture
def tables(tmp_path: Path) -> BucketTables:
    return BucketTables(BucketAddress(f"file://{tmp_path}/objects"), tmp_path / "store", 1 << 20)


def home_of(tmp_path: Path, name: str) -> Path:
    home = tmp_path / "store" / "$G" / name
    home.mkdir(parents=True)
    return home


def test_an_address_is_one_store_s(tables: BucketTables, tmp_path: Path) -> None:
    tables.claim("one")
    tables.claim("one")
    with pytest.raises(TablePlaceError, match="another store, with id one"):
        BucketTables(tables.address, tmp_path / "other", 0).claim("two")
    Bucket(tables.address).put(OWNER, b"rubbish")
    with pytest.raises(TablePlaceError, match="damaged"):
        tables.claim("one")


def test_a_store_that_is_refused_writes_nothing(tables: BucketTables, tmp_path: Path) -> None:
    tables.claim("one")
    before = {path: path.read_bytes() for path in (tmp_path / "objects").rglob("*") if path.is_file()}
    refused = BreakableObjects(Bucket(tables.address))
    refused.break_always(ObjectFault.REFUSED, "write")
    with pytest.raises(TablePlaceError, match="another store, with id one"):
        BucketTables(tables.address, tmp_path / "other", 0, refused).claim("two")
    after = {path: path.read_bytes() for path in (tmp_path / "objects").rglob("*") if path.is_file()}
    assert after == before
    assert not (tmp_path / "other" / ".tables" / "claimed").exists()


def test_an_engine_whose_address_another_one_took_removes_nothing(
    tables: BucketTables, tmp_path: Path
) -> None:
    tables.claim("one")
    home = home_of(tmp_path, "ORDERS")
    tables.storage(DISK, home, is_new=True)
    BucketTables(tables.address, tmp_path / "copy", 0).claim("one", 7)
    remote = read_remote(DISK, home)
    assert remote is not None
    with pytest.raises(TablePlaceError, match="with epoch 7"):
        tables.remove(remote)


def test_a_new_stream_s_table_has_a_place_that_stays(tables: BucketTables, tmp_path: Path) -> None:
    home = home_of(tmp_path, "ORDERS")
    storage = tables.storage(DISK, home, is_new=True)
    assert storage is not None
    table = Table.open_on(storage)
    table.commit(add=[table.write(columns(range(1, 100)))])
    remote = read_remote(DISK, home)
    assert remote is not None
    assert remote.address == f"{tables.address.url}/$G/ORDERS/table"
    again = tables.storage(DISK, home, is_new=False)
    assert again is not None
    assert [file.rows for file in Table.open_on(again).files] == [99]
    tables.remove(remote)
    assert list(Bucket(remote.bucket).list()) == []


def test_a_stream_that_is_not_new_keeps_its_table_on_the_disk(tables: BucketTables, tmp_path: Path) -> None:
    home = home_of(tmp_path, "OLD")
    assert tables.storage(DISK, home, is_new=False) is None
    assert read_remote(DISK, home) is None


def test_no_two_streams_share_a_place(tables: BucketTables, tmp_path: Path) -> None:
    for name in ("A", "A B", "A~20B", "Ä"):
        storage = tables.storage(DISK, home_of(tmp_path, name), is_new=True)
        assert storage is not None
        Table.open_on(storage)
    taken = home_of(tmp_path / "again", "A")
    assert tables.storage(DISK, taken, is_new=True) is not None
    homes = [*(tmp_path / "store" / "$G").iterdir(), taken]
    places = [remote.address for home in homes if (remote := read_remote(DISK, home))]
    assert len(set(places)) == 5
    assert f"{tables.address.url}/$G/A.2/table" in places


def test_a_table_in_another_place_is_refused(tables: BucketTables, tmp_path: Path) -> None:
    home = home_of(tmp_path, "ORDERS")
    write_remote(DISK, home, RemoteTable(address="s3://other/$G/ORDERS/table"))
    with pytest.raises(TablePlaceError, match="which is not below --tables"):
        tables.storage(DISK, home, is_new=False)
    with pytest.raises(TablePlaceError, match="start the engine with --tables"):
        require_local(DISK, home)
    require_local(DISK, tmp_path)


def test_prefixes_that_other_readers_do_not_take_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="letters, digits"):
        BucketTables(BucketAddress("s3://lake/a b", "http://127.0.0.1:1"), tmp_path, 0)


def test_what_was_half_written_is_gone_after_a_restart(tables: BucketTables, tmp_path: Path) -> None:
    scratch = tmp_path / "store" / ".tables" / "scratch"
    scratch.mkdir(parents=True)
    (scratch / "part.tmp").write_bytes(b"half")
    assert not BucketTables(tables.address, tmp_path / "store", 0).outage
    assert not scratch.exists()
