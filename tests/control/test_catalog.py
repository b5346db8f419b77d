"""The catalog keeps every declaration across restarts, and forgets those that were refused."""

from __future__ import annotations

import errno
import random
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.control import declaration
from headwater.control.catalog import Catalog
from headwater.control.catalog_file import CatalogError
from headwater.control.catalog_rows import ConsumerRow, StreamRow
from headwater.control.reconciliation import Reconciliation
from headwater.disk import RealDisk
from headwater.errors import DiskError, FencedError
from rounds import choose_seed


def row(name: str, *, account: str = "$G", identity: str = "") -> StreamRow:
    return StreamRow(account, name, '{"name":"x"}', 17, identity or f"id-{account}-{name}", name)


def test_a_created_stream_is_there_after_a_restart(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    catalog.create(row("b"))
    catalog.create(row("a"))
    catalog.close()
    assert Catalog(tmp_path / "catalog.db").streams("$G") == [row("a"), row("b")]


def test_an_update_replaces_the_config_alone(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    catalog.create(row("a"))
    catalog.update("$G", "a", "{}")
    assert catalog.streams("$G") == [StreamRow("$G", "a", "{}", 17, "id-$G-a", "a", 2)]


def test_a_deleted_stream_is_gone_and_its_name_is_free(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    catalog.create(row("a"))
    catalog.delete("$G", "a")
    catalog.delete("$G", "a")
    assert catalog.streams("$G") == []
    catalog.create(row("a", identity="second"))


def test_accounts_do_not_see_each_other(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    catalog.create(row("a", account="A"))
    catalog.create(row("a", account="B"))
    catalog.delete("A", "a")
    assert [r.account for r in catalog.streams("B")] == ["B"]
    assert catalog.streams("A") == []


def test_a_second_stream_of_one_name_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    catalog.create(row("a"))
    with pytest.raises(sqlite3.IntegrityError):
        catalog.create(row("a", identity="other"))
    assert catalog.streams("$G") == [row("a")]
    catalog.create(row("b"))


def test_many_threads_write_without_losing_a_row(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: catalog.create(row(f"s{n:03}")), range(64)))
    assert [r.name for r in catalog.streams("$G")] == [f"s{n:03}" for n in range(64)]


def test_the_store_id_stays(tmp_path: Path) -> None:
    first = Catalog(tmp_path / "catalog.db")
    store_id = first.store_id
    first.close()
    assert Catalog(tmp_path / "catalog.db").store_id == store_id
    assert Catalog(tmp_path / "other.db").store_id != store_id


def consumer(name: str, config: str = "{}") -> ConsumerRow:
    return ConsumerRow("$G", "a", name, config, 5)


def home(store: Path) -> Path:
    path = store / "$G" / "a"
    path.mkdir(parents=True)
    return path


def test_every_change_lies_beside_the_data_too(tmp_path: Path) -> None:
    disk = RealDisk(sync=False)
    catalog, path = Catalog(tmp_path / "catalog.db"), home(tmp_path)
    catalog.create(row("a"))
    catalog.update("$G", "a", '{"n":2}')
    declared = declaration.read_declaration(disk, path)
    assert declared is not None
    assert (declared.config, declared.revision, declared.store) == ('{"n":2}', 2, catalog.store_id)
    catalog.declare_consumer(consumer("c"))
    catalog.declare_consumer(consumer("c", '{"n":3}'))
    catalog.declare_consumer(consumer("d"))
    catalog.forget_consumer("$G", "a", "d")
    (file,) = declaration.consumer_files(disk, path)
    assert (file.created_ns, file.revision) == (5, 2)
    assert declaration.read_consumer(disk, path, file).config == '{"n":3}'


class FullDisk(RealDisk):
    """A disk that has no room for consumers."""

    def write_atomic(self, path: Path, data: bytes) -> None:
        if path.parent.name == "consumers":
            raise DiskError(path, "write", errno.ENOSPC)
        super().write_atomic(path, data)


class UnreadableAfter:
    """A fence whose record can be read so often and no more."""

    epoch = 0

    def __init__(self, checks: int) -> None:
        self._checks = checks

    def check(self) -> None:
        """Return, or fail as a disk does."""
        self._checks -= 1
        if self._checks < 0:
            raise DiskError(Path("epoch"), "read", errno.EIO)


def test_a_refused_consumer_that_cannot_be_forgotten_at_once_is_forgotten_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog(tmp_path / "catalog.db", FullDisk())
    home(tmp_path)
    catalog.create(row("a"))
    with monkeypatch.context() as patch:
        patch.setattr(catalog._file, "_fence", UnreadableAfter(2))  # before and after the row is committed
        with pytest.raises(DiskError):
            catalog.declare_consumer(consumer("c"))
    assert [left.name for left in catalog.consumers("$G", "a")] == ["c"]
    catalog.create(row("b"))
    assert catalog.consumers("$G", "a") == []
    catalog.close()


def test_a_consumer_that_the_disk_refuses_is_not_there_after_a_restart(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db", FullDisk())
    home(tmp_path)
    catalog.create(row("a"))
    with pytest.raises(DiskError):
        catalog.declare_consumer(consumer("c"))
    assert catalog.consumers("$G", "a") == []


class UnsyncedConsumers(RealDisk):
    """A disk that writes the file of a consumer and then reports so many failures to sync its name."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    def sync_dir(self, path: Path) -> None:
        if path.name == "consumers" and self.failures:
            self.failures -= 1
            raise DiskError(path, "sync", errno.EIO)
        super().sync_dir(path)


@pytest.mark.parametrize("failures", [1, 2])
def test_a_consumer_whose_file_was_written_and_reported_as_failed_is_gone(
    tmp_path: Path, failures: int
) -> None:
    disk = UnsyncedConsumers(failures)
    catalog = Catalog(tmp_path / "catalog.db", disk)
    path = home(tmp_path)
    catalog.create(row("a"))
    with pytest.raises(DiskError):
        catalog.declare_consumer(consumer("c"))
    catalog.create(row("b"))  # the disk is healthy again: what could not be removed at once is now
    assert catalog.consumers("$G", "a") == []
    assert declaration.consumer_files(disk, path) == []
    catalog.declare_consumer(consumer("c"))
    catalog.create(row("d"))
    assert [str(file) for file in declaration.consumer_files(disk, path)] == ["c.5.1.json"]
    catalog.close()


@pytest.mark.parametrize("failures", [1, 2])
def test_a_refused_change_of_a_consumer_is_gone_after_a_restart(tmp_path: Path, failures: int) -> None:
    disk = UnsyncedConsumers(0)
    catalog = Catalog(tmp_path / "catalog.db", disk)
    path = home(tmp_path)
    catalog.create(row("a"))
    catalog.declare_consumer(consumer("c"))
    disk.failures = failures
    with pytest.raises(DiskError):
        catalog.declare_consumer(consumer("c", '{"n":2}'))
    catalog.create(row("b"))  # the disk is healthy again
    assert [left.config for left in catalog.consumers("$G", "a")] == ["{}"]
    assert [str(file) for file in declaration.consumer_files(disk, path)] == ["c.5.1.json"]
    catalog.declare_consumer(consumer("c", '{"n":3}'))
    catalog.create(row("d"))
    assert [str(file) for file in declaration.consumer_files(disk, path)] == ["c.5.2.json"]
    catalog.close()


def test_a_refused_change_of_a_stream_is_gone_after_a_restart_that_comes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, fence = RealDisk(sync=False), UnreadableAfter(1000)
    catalog = Catalog(tmp_path / "catalog.db", disk, fence=fence)
    path = home(tmp_path)
    catalog.create(row("a"))
    catalog.update("$G", "a", '{"n":2}')
    monkeypatch.setattr(fence, "_checks", 1)
    with pytest.raises(DiskError):
        catalog.update("$G", "a", '{"n":3}')
    catalog.close()
    catalog = Catalog(tmp_path / "catalog.db", disk)
    (found,) = catalog.streams("$G")
    assert Reconciliation(catalog, disk).settle(found, path).config == '{"n":2}'
    catalog.update("$G", "a", '{"n":4}')
    (found,) = catalog.streams("$G")
    assert Reconciliation(catalog, disk).settle(found, path).config == '{"n":4}'
    catalog.close()


class LostAfter(UnreadableAfter):
    """The fence of a store that another engine takes over after so many checks."""

    def check(self) -> None:
        """Return, or say that the store is lost."""
        try:
            super().check()
        except DiskError:
            raise FencedError(Path("store"), 1, "another engine has taken over") from None


class CountedWrites(RealDisk):
    """Writes so many more files atomically, then refuses."""

    def __init__(self) -> None:
        super().__init__(sync=False)
        self.left = 1000

    def write_atomic(self, path: Path, data: bytes) -> None:
        self.left -= 1
        if self.left < 0:
            raise DiskError(path, "write", errno.EIO)
        super().write_atomic(path, data)


def _declared(catalog: Catalog, disk: RealDisk, path: Path) -> str:
    (found,) = catalog.streams("$G")
    return Reconciliation(catalog, disk).settle(found, path).config


def test_a_refused_change_that_cannot_be_taken_back_is_gone_after_a_restart(tmp_path: Path) -> None:
    disk, fence = CountedWrites(), UnreadableAfter(1000)
    catalog = Catalog(tmp_path / "catalog.db", disk, fence=fence)
    path = home(tmp_path)
    catalog.create(row("a"))
    catalog.update("$G", "a", '{"n":2}')
    assert _declared(catalog, disk, path) == '{"n":2}'
    disk.left, fence._checks = 1, 1
    with pytest.raises(DiskError):
        catalog.update("$G", "a", '{"n":3}')
    catalog.close()
    catalog = Catalog(tmp_path / "catalog.db", disk)
    assert _declared(catalog, disk, path) == '{"n":2}', "on a disk that refuses every write"
    disk.left = 1000
    assert _declared(catalog, disk, path) == '{"n":2}'
    catalog.update("$G", "a", '{"n":4}')
    assert _declared(catalog, disk, path) == '{"n":4}'
    catalog.close()


def test_a_change_that_was_made_stays_whether_or_not_its_file_says_so(tmp_path: Path) -> None:
    disk = CountedWrites()
    catalog = Catalog(tmp_path / "catalog.db", disk)
    path = home(tmp_path)
    catalog.create(row("a"))
    (old,) = catalog.streams("$G")
    disk.left = 1
    catalog.update("$G", "a", '{"n":2}')
    assert _declared(catalog, CountedWrites(), path) == '{"n":2}'
    disk.left = 1000
    catalog.update("$G", "a", '{"n":3}')
    catalog.replace(old)  # a catalog from a backup
    assert _declared(catalog, disk, path) == '{"n":3}'
    catalog.close()


def test_an_engine_that_lost_its_store_leaves_the_files_of_the_next_alone(tmp_path: Path) -> None:
    disk, fence = RealDisk(sync=False), LostAfter(1000)
    catalog = Catalog(tmp_path / "catalog.db", disk, fence=fence)
    path = home(tmp_path)
    catalog.create(row("a"))
    catalog.declare_consumer(consumer("c"))
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    fence._checks = 0
    changes: list[Callable[[], None]] = [
        lambda: catalog.update("$G", "a", '{"n":2}'),
        lambda: catalog.declare_consumer(consumer("c", '{"n":2}')),
        lambda: catalog.declare_consumer(consumer("d")),
        lambda: catalog.forget_consumer("$G", "a", "c"),
    ]
    for change in changes:
        with pytest.raises(FencedError):
            change()
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
    catalog.close()


def test_a_deletion_is_recorded_with_the_row_and_forgotten_when_done(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    catalog.create(row("a"))
    catalog.delete("$G", "a", tombstone=True)
    catalog.close()
    catalog = Catalog(tmp_path / "catalog.db")
    assert catalog.deletions() == {"id-$G-a"}
    catalog.forget_deletion("id-$G-a")
    assert catalog.deletions() == set()


def test_a_flipped_bit_anywhere_is_found_or_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    catalog = Catalog(path)
    names = [f"s{n}" for n in range(12)]
    for name in names:
        catalog.create(row(name))
    for n in range(6):
        catalog.declare_consumer(ConsumerRow("$G", "s1", f"c{n}", "{}", 5))
    catalog.delete("$G", "s11", tombstone=True)
    expected = _content(catalog)
    catalog.close()
    whole = path.read_bytes()
    seed = choose_seed()
    chance = random.Random(seed)
    used = [at for at, byte in enumerate(whole) if byte or at < 100]
    silent = []
    for at in sorted({*range(100), *chance.sample(used, 700), *chance.sample(range(len(whole)), 100)}):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        for rest in (path.with_name("catalog.db-wal"), path.with_name("catalog.db-shm")):
            rest.unlink(missing_ok=True)
        try:
            catalog = Catalog(path)
        except CatalogError:
            continue
        if _content(catalog) != expected:
            silent.append((seed, at))
        catalog.close()
    assert silent == []


def _content(catalog: Catalog) -> object:
    streams = catalog.streams("$G")
    consumers = [catalog.consumers("$G", row.name) for row in streams]
    return catalog.store_id, streams, consumers, catalog.deletions()


class Later:
    """Owners of a store, one after the other."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def check(self) -> None:
        """Return: the file is to find out by itself."""


def test_an_owner_that_was_fenced_declares_and_forgets_nothing(tmp_path: Path) -> None:
    old = Catalog(tmp_path / "catalog.db", fence=Later(1))
    old.claim()
    old.create(row("a"))
    new = Catalog(tmp_path / "catalog.db", fence=Later(2))
    assert new.epoch == 1
    new.claim()
    assert new.epoch == 2
    with pytest.raises(FencedError, match="epoch 2"):
        old.create(row("b"))
    with pytest.raises(FencedError, match="epoch 2"):
        old.delete("$G", "a")
    assert new.streams("$G") == [row("a")]
    new.create(row("c"))
    old.close()
    new.close()
