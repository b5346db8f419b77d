"""A table in a bucket under faults: nothing is lost, and nothing is mistaken for damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake.exceptions import DeltaError
from pyroaring import BitMap64

from breakable_objects import BreakableObjects, ObjectFault
from headwater.disk import RealDisk
from headwater.errors import CorruptionError, DiskError
from headwater.model.adopted import Adopted
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.objects.guarded import GuardedObjects, Outage
from headwater.objects.object_error import ObjectError, Problem
from headwater.table import parquet
from headwater.table.adopted_sums import adopted_of
from headwater.table.datafile import DataFile
from headwater.table.delta_log import ConflictError, DeltaLog
from headwater.table.object_table_storage import ObjectTableStorage
from headwater.table.parquet import MAX_GROUP_ROWS
from headwater.table.range_cache import RangeCache
from headwater.table.table import Table
from table.samples import columns

FOLD = "headwater-fold"


class UnfilledStorage(ObjectTableStorage):
    """A storage that has nothing in its cache of what it wrote."""

    def finish(self, written: Path, path: str) -> None:
        self._objects.put_file(path, written)
        self.abandon(written)


class Place:
    """A bucket with one table, and an outage whose pauses are over at once."""

    def __init__(self, tmp_path: Path) -> None:
        self.address = BucketAddress(f"file://{tmp_path}/objects")
        self.objects = BreakableObjects(Bucket(self.address))
        self.cache = RangeCache(tmp_path / "cache", 1 << 20)
        self.scratch = tmp_path / "scratch"
        self._ticks = 0.0
        self._directory = tmp_path / "store" / "table"
        self.kind: type[ObjectTableStorage] = UnfilledStorage

    def open(self) -> Table:
        return Table.open_on(self.storage())

    def storage(self) -> ObjectTableStorage:
        guarded = GuardedObjects(self.objects, Outage(self.address.url, self._later))
        self._directory.parent.mkdir(exist_ok=True)
        return self.kind(guarded, self.address, self._directory, self.scratch, self.cache)

    def _later(self) -> float:
        self._ticks += 100
        return self._ticks


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def fold(table: Table, first: int, last: int) -> None:
    file = table.write(columns(range(first, last + 1)))
    try:
        table.commit(add=[file], transactions={FOLD: last})
    except BaseException:
        table.discard([file])
        raise


def rows_in(table: Table) -> list[int]:
    found = BitMap64()
    for file in table.files:
        found |= table.found(file).seqs
    return list(found)


def test_what_is_folded_is_there_for_the_next_engine(place: Place) -> None:
    table = place.open()
    fold(table, 1, 100)
    fold(table, 101, 200)
    again = place.open()
    assert rows_in(again) == list(range(1, 201))
    assert again.transaction(FOLD) == 200
    assert again.locate(150) is not None
    assert list(place.scratch.iterdir()) == []


def test_data_is_compressed_in_a_bucket_and_as_configured_on_the_disk(place: Place, tmp_path: Path) -> None:
    codecs = []
    for table in (place.open(), Table.open(tmp_path / "local", RealDisk())):
        fold(table, 1, 100)
        address = table.address_of(table.files[0]).removeprefix("file://")
        group = parquet.read_footer(Path(address), None).metadata.row_group(0)
        codecs.append({group.column(index).compression for index in range(group.num_columns)})
    assert codecs == [{"ZSTD"}, {"UNCOMPRESSED"}]


def test_row_groups_are_read_once_and_kept(place: Place) -> None:
    table = place.open()
    fold(table, 1, 100)
    file = table.files[0]
    table.read_group(file, 0)
    before = place.objects.requests
    assert len(table.read_group(file, 0)) == 100
    assert place.objects.requests == before
    for kept in place.cache._directory.iterdir():
        kept.write_bytes(b"damaged")
    assert len(table.read_group(file, 0)) == 100
    assert place.objects.requests == before + 1


def test_a_put_that_is_refused_leaves_the_table_as_it_was(place: Place) -> None:
    table = place.open()
    fold(table, 1, 10)
    place.objects.break_at(1, ObjectFault.REFUSED, "write")
    with pytest.raises(ObjectError, match="cannot be reached"):
        fold(table, 11, 20)
    assert list(place.scratch.iterdir()) == []
    fold(table, 11, 20)
    assert rows_in(place.open()) == list(range(1, 21))


def test_a_put_that_was_done_late_leaves_a_file_that_a_sweep_takes(place: Place) -> None:
    table = place.open()
    place.objects.break_at(1, ObjectFault.LATE, "write")
    with pytest.raises(ObjectError):
        fold(table, 1, 10)
    fold(table, 1, 10)
    assert len(table.unreferenced()) == 1
    assert table.sweep(60.0, 1000.0) == 0, "the grace has only begun"
    assert table.sweep(60.0, 1060.0) == 1
    assert table.unreferenced() == []
    assert rows_in(table) == list(range(1, 11))


def broken_commit(monkeypatch: pytest.MonkeyPatch, *, done: bool) -> None:
    """Have the next commit be reported as failed."""
    write = DeltaLog._write

    def failing(log: DeltaLog, *arguments: Any) -> None:
        monkeypatch.setattr(DeltaLog, "_write", write)
        if done:
            write(log, *arguments)
        raise DeltaError("Generic S3 error: HTTP error: error sending request")

    monkeypatch.setattr(DeltaLog, "_write", failing)


def test_a_commit_that_was_done_late_is_a_commit(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    table = place.open()
    fold(table, 1, 10)
    broken_commit(monkeypatch, done=True)
    fold(table, 11, 20)
    fold(table, 21, 30)
    assert rows_in(table) == rows_in(place.open()) == list(range(1, 31))


def test_a_commit_that_was_not_done_is_none(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    table = place.open()
    broken_commit(monkeypatch, done=False)
    with pytest.raises(ObjectError, match=r"cannot commit .*001\.json: the object store cannot be reached"):
        fold(table, 1, 10)
    fold(table, 1, 10)
    assert rows_in(place.open()) == list(range(1, 11))


@pytest.mark.parametrize("done", [True, False])
def test_a_commit_whose_outcome_cannot_be_seen_is_settled_by_opening_again(
    place: Place, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    table = place.open()
    fold(table, 1, 10)
    file = table.write(columns(range(11, 21)))
    broken_commit(monkeypatch, done=done)
    place.objects.break_always(ObjectFault.REFUSED)
    with pytest.raises((ObjectError, ConflictError)):
        table.commit(add=[file], transactions={FOLD: 20})
    place.objects.heal()
    with pytest.raises(ConflictError, match="must be opened"):
        table.commit(add=[file], transactions={FOLD: 20})
    again = place.open()
    assert again.transaction(FOLD) == (20 if done else 10)
    assert rows_in(again) == list(range(1, 21 if done else 11))


def test_a_fenced_engine_s_commit_is_refused(place: Place) -> None:
    fenced = place.open()
    fold(fenced, 1, 10)
    owner = place.open()
    fold(owner, 11, 20)
    with pytest.raises(ConflictError):
        fold(fenced, 11, 15)
    assert rows_in(place.open()) == list(range(1, 21))


def test_two_that_make_one_table_agree_on_its_first_commit(place: Place) -> None:
    one = place.open()
    two = place.open()
    fold(one, 1, 10)
    with pytest.raises(ConflictError):
        fold(two, 1, 10)


def test_an_outage_is_not_taken_for_damage(place: Place) -> None:
    table = place.open()
    fold(table, 1, 10)
    place.objects.break_always(ObjectFault.REFUSED)
    for call in (
        lambda: table.found(table.files[0]),
        lambda: table.missing,
        lambda: place.open(),
        lambda: table.groups(table.files[0]),
        lambda: table.sweep(0.0, 1.0),
        table.require_ready,
    ):
        with pytest.raises(ObjectError) as error:
            call()
        assert error.value.problem is Problem.UNREACHABLE
    place.objects.heal()
    table.require_ready()
    assert rows_in(table) == list(range(1, 11))


def test_a_file_that_is_gone_is_damage(place: Place) -> None:
    table = place.open()
    fold(table, 1, 10)
    Bucket(place.address).delete(table.files[0].path)
    with pytest.raises(CorruptionError, match="the file is missing"):
        table.groups(table.files[0])
    assert table.missing == set(table.files)
    assert rows_in(table) == []


def test_a_damaged_object_is_never_served(place: Place) -> None:
    table = place.open()
    fold(table, 1, 10)
    bucket, path = Bucket(place.address), table.files[0].path
    content = bytearray(bucket.get(path))
    content[10] ^= 1
    bucket.put(path, bytes(content))
    with pytest.raises(CorruptionError, match="checksum"):
        table.read_group(table.files[0], 0)
    group = table._reader._footer(table.files[0]).places[0]
    assert not place.cache.has(f"{place.address.url}/{path}:{group[0]}:{group[1] - group[0]}")


def test_a_damaged_commit_is_refused(place: Place) -> None:
    fold(place.open(), 1, 10)
    bucket = Bucket(place.address)
    key = "_delta_log/00000000000000000001.json"
    bucket.put(key, bucket.get(key).replace(b'"size"', b'"sise"'))
    with pytest.raises(CorruptionError):
        place.open()


def test_long_logs_are_checkpointed_and_cut(place: Place) -> None:
    table = place.open()
    for first in range(1, 131):
        fold(table, first, first)
        table.maintain()
    names = [info.key for info in Bucket(place.address).list("_delta_log")]
    assert sum(".checkpoint.parquet" in name for name in names) >= 1
    assert rows_in(place.open()) == list(range(1, 131))


def test_a_moved_and_an_adopted_file_and_an_empty_table(place: Place, tmp_path: Path) -> None:
    table = place.open()
    moved = table.place(table.write(columns(range(1, 11))), 100)
    table.commit(add=[moved])
    assert rows_in(table) == list(range(101, 111))
    table.drop()
    assert list(Bucket(place.address).list()) == []


def staged_in(place: Place, table: Table, first: int, last: int) -> Adopted:
    """Leave a file for the table in the bucket, as a transfer task does."""
    path = place.scratch / "made.parquet"
    stats = parquet.write(path, columns(range(first, last + 1)), 0)
    assert stats.sums is not None
    name = f"w-{first}-{stats.footer_crc:08x}.parquet"
    place.objects.put_file(f"_staging/{name}", path)
    path.unlink()
    return adopted_of(name, stats.content.size_bytes, stats.sums)


def test_a_staged_object_is_adopted_by_a_copy_in_the_bucket(place: Place) -> None:
    table = place.open()
    fold(table, 1, 10)
    files = [staged_in(place, table, first, first + 9) for first in (11, 21)]
    assert sorted(table.staging.names()) == sorted(file.name for file in files)
    assert table.unreferenced() == [], "a staged file is none of the table"
    table.adopt(table.staging.directory, files, {"adoption": 30})
    assert list(table.staging.names()) == []
    again = place.open()
    assert rows_in(again) == list(range(1, 31))
    assert (again.transaction("adoption"), again.unreferenced()) == (30, [])


@pytest.mark.parametrize("fault", [ObjectFault.REFUSED, ObjectFault.LATE])
@pytest.mark.parametrize(("operation", "number"), [("copy", 1), ("copy", 2), ("remove", 1), ("read", 1)])
def test_an_adoption_that_was_interrupted_continues(
    place: Place, fault: ObjectFault, operation: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = place.open()
    files = [staged_in(place, table, first, first + 9) for first in (1, 11)]
    place.objects.break_at(number, fault, operation)
    broken_commit(monkeypatch, done=False)
    with pytest.raises(ObjectError):
        table.adopt(table.staging.directory, files, {"adoption": 20})
    monkeypatch.undo()
    place.objects.heal()
    again = place.open()
    again.adopt(again.staging.directory, files, {"adoption": 20})
    assert rows_in(place.open()) == list(range(1, 21))


def test_a_staged_object_that_is_gone_is_no_file_of_the_table(place: Place) -> None:
    table = place.open()
    file = staged_in(place, table, 1, 10)
    table.staging.discard(file.name)
    with pytest.raises(ObjectError, match="no such object"):
        table.adopt(table.staging.directory, [file], {"adoption": 10})
    assert place.open().files == ()


def known(place: Place) -> Table:
    """Return the table as its last snapshot has it."""
    table = Table.of_snapshot(place.storage())
    assert table is not None
    assert not table.is_confirmed
    table.keep_snapshots((FOLD,))
    return table


def test_a_snapshot_opens_without_the_bucket_and_continues_with_it(place: Place) -> None:
    table = place.open()
    assert Table.of_snapshot(place.storage()) is None
    table.keep_snapshots((FOLD,))
    fold(table, 1, 10)
    fold(table, 11, 20)
    place.objects.break_always(ObjectFault.REFUSED)
    before = place.objects.requests
    opened = known(place)
    assert (opened.version, opened.transaction(FOLD), len(opened.files)) == (table.version, 20, 2)
    assert (opened.missing, opened.sweep(0.0, 1.0)) == (frozenset(), 0)
    assert place.objects.requests == before, "nothing was asked"
    with pytest.raises(ObjectError):
        fold(opened, 21, 30)
    place.objects.heal()
    fold(opened, 21, 30)
    assert opened.is_confirmed
    assert rows_in(place.open()) == list(range(1, 31))
    assert known(place).transaction(FOLD) == 30


def test_an_old_snapshot_never_commits_and_never_sweeps(place: Place) -> None:
    table = place.open()
    table.keep_snapshots((FOLD,))
    fold(table, 1, 10)
    old = place.storage().saved()
    assert old is not None
    fold(table, 11, 20)
    place.storage().save(old)
    opened = known(place)
    opened.has_unreferenced = True
    assert opened.sweep(0.0, 1.0) == opened.sweep(0.0, 1000.0) == 0
    with pytest.raises(ConflictError, match="another writer"):
        fold(opened, 11, 20)
    assert rows_in(place.open()) == list(range(1, 21))


def test_a_snapshot_that_cannot_be_written_is_none(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    table = place.open()
    table.keep_snapshots((FOLD,))

    def refuse(disk: RealDisk, path: Path, content: bytes) -> None:
        raise DiskError(path, "write", 28)

    monkeypatch.setattr(RealDisk, "write_atomic", refuse)
    fold(table, 1, 10)
    assert place.storage().saved() is None
    assert rows_in(place.open()) == list(range(1, 11))


def long_file(table: Table) -> DataFile:
    """Return a file of five row groups."""
    file = table.write(columns(range(1, 5 * MAX_GROUP_ROWS + 1)))
    table.commit(add=[file])
    assert len(table.groups(file)) == 5
    return file


def settle(table: Table) -> None:
    """Return once nothing is fetched any more."""
    storage = table._storage
    assert isinstance(storage, ObjectTableStorage)
    for key in list(storage._prefetch._in_progress):
        storage._prefetch.wait(key)


def test_a_reader_in_order_finds_the_next_row_groups_in_the_cache(place: Place) -> None:
    place.cache = RangeCache(place.scratch.parent / "large", 64 << 20)
    table = place.open()
    file = long_file(table)
    table.read_group(file, 0)
    settle(table)
    before = place.objects.requests
    table.read_group(file, 1)
    settle(table)
    assert place.objects.requests == before + 4, "the one that was asked for, and three that follow"
    for index in (2, 3, 4):
        assert len(table.read_group(file, index)) == MAX_GROUP_ROWS
    assert place.objects.requests == before + 4


def test_single_reads_fetch_nothing_else(place: Place) -> None:
    place.cache = RangeCache(place.scratch.parent / "large", 64 << 20)
    table = place.open()
    file = long_file(table)
    table.groups(file)
    before = place.objects.requests
    for index in (3, 0, 2):
        table.read_group(file, index)
        settle(table)
    assert place.objects.requests == before + 3


def test_what_cannot_be_fetched_ahead_is_asked_for_again(place: Place) -> None:
    place.cache = RangeCache(place.scratch.parent / "large", 64 << 20)
    table = place.open()
    file = long_file(table)
    table.read_group(file, 0)
    place.objects.break_at(1, ObjectFault.REFUSED, "read")
    place.objects.break_at(2, ObjectFault.REFUSED, "read")
    place.objects.break_at(3, ObjectFault.REFUSED, "read")
    found = 0
    for index in (1, 2, 3, 4):
        try:
            found += len(table.read_group(file, index))
        except ObjectError:
            found += len(table.read_group(file, index))
    assert found == 4 * MAX_GROUP_ROWS


def test_what_was_written_is_read_while_the_bucket_is_away_and_damage_in_the_cache_is_not(
    place: Place, tmp_path: Path
) -> None:
    place.kind = ObjectTableStorage
    table = place.open()
    fold(table, 1, 100)
    place.objects.break_always(ObjectFault.REFUSED)
    assert len(table.read_group(table.files[0], 0)) == 100
    place.objects.heal()
    for kept in (tmp_path / "cache").iterdir():
        kept.write_bytes(b"rubbish")
    table = place.open()
    requests = place.objects.requests
    assert len(table.read_group(table.files[0], 0)) == 100
    assert place.objects.requests > requests
    assert rows_in(table) == list(range(1, 101))
