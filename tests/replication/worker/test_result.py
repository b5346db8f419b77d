"""Where the messages of a transfer lie when it is done, and what is left when it is not."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from headwater.errors import DiskError
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.replication.work import INLINE_BYTES, Receipt, Work, encode
from headwater.replication.worker import result as result_module
from headwater.replication.worker.result import LEAST_SPLICED_BYTES, LEAST_SPLICED_ROWS, Result
from headwater.replication.worker.task_bucket import TaskBucket
from headwater.table.arrow_tables import rows_of
from headwater.table.pages.data_chunk import CODECS, DataChunk, Page
from headwater.table.parquet import FileWriter
from headwater.table.rows import Rows
from replication.works import brought, work_of
from table.samples import columns, message


def rows(seqs: Iterable[int]) -> Rows:
    """Return the messages of these sequences as arrays."""
    return rows_of(columns(seqs))


def staged_work(tmp_path: Path) -> Work:
    """Return a piece of work whose staging directory is not there yet."""
    return work_of(stop_seq=10**6, staging=str(tmp_path / "target" / "staging"))


def test_no_message_is_a_receipt_without_data(tmp_path: Path) -> None:
    with Result(staged_work(tmp_path)) as result:
        receipt = result.receipt(9)
    assert (receipt.through, receipt.rows, receipt.data, receipt.path) == (9, 0, b"", "")
    assert (receipt.work, receipt.target, receipt.upstream) == ("w1", "COPY", "ORDERS > >")
    assert receipt.expected == b"cursor"


def test_a_small_result_travels_in_its_receipt(tmp_path: Path) -> None:
    with Result(staged_work(tmp_path)) as result:
        result.append(rows(range(1, 5)))
        result.append(rows(range(5, 9)))
        receipt = result.receipt(9)
    assert brought(receipt) == [message(seq) for seq in range(1, 9)]
    assert not list(tmp_path.iterdir())


def test_a_receipt_never_grows_beyond_what_may_travel_in_it(tmp_path: Path) -> None:
    with Result(staged_work(tmp_path)) as result:
        count = 0
        while not (receipt := _after(result, count)).path:
            count += 100
            assert len(encode([receipt])) < INLINE_BYTES + 1024
    assert count > 1000


def _after(result: Result, count: int) -> Receipt:
    result.append(rows(range(count + 1, count + 101)))
    return result.receipt(count + 100)


def test_a_large_result_is_one_finished_file_in_the_staging_directory(tmp_path: Path) -> None:
    with Result(staged_work(tmp_path)) as result:
        for start in range(1, 50_001, 1000):
            result.append(rows(range(start, start + 1000)))
        receipt = result.receipt(50_000)
    assert (receipt.rows, receipt.data) == (50_000, b"")
    staging = tmp_path / "target" / "staging"
    assert brought(receipt, staging) == [message(seq) for seq in range(1, 50_001)]
    assert [path.name for path in staging.iterdir()] == [receipt.path]


@pytest.mark.parametrize("in_bucket", [True, False])
@pytest.mark.parametrize("mirrored", [True, False])
def test_a_large_result_in_a_bucket_is_several_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_bucket: bool, mirrored: bool
) -> None:
    monkeypatch.setattr(result_module, "UPLOADED_BYTES", 1)
    bucket = Bucket(BucketAddress(f"file://{tmp_path}")) if in_bucket else None
    staging = tmp_path / "target" / "_staging"
    work = msgspec.structs.replace(
        staged_work(tmp_path),
        staging=f"file://{staging}" if in_bucket else str(staging),
        adoptive=True,
        mirrored=mirrored,
    )
    with Result(work, bucket=TaskBucket(bucket) if bucket else None) as result:
        for start in range(1, 60_001, 1000):
            result.append(rows(range(start, start + 1000)))
        receipt = result.receipt(60_000)
    assert sum(file.rows for file in receipt.adopted) == receipt.rows == 60_000
    assert (len(receipt.adopted) > 1) is in_bucket
    assert {path.name for path in staging.iterdir()} == {file.name for file in receipt.adopted}
    assert [file.size_bytes for file in receipt.adopted] == [
        (staging / file.name).stat().st_size for file in receipt.adopted
    ]
    if mirrored:
        firsts = [file.first_offset for file in receipt.adopted]
        assert firsts == [1, *(file.last_offset + 1 for file in receipt.adopted[:-1])]
    else:
        assert {file.first_offset for file in receipt.adopted} == {0}
        times = [ts for file in receipt.adopted for ts in (file.first_ts, file.last_ts)]
        assert times == sorted(times)


def test_two_attempts_at_one_work_never_share_a_name(tmp_path: Path) -> None:
    paths = set()
    for _ in range(2):
        with Result(staged_work(tmp_path)) as result:
            result.append(rows(range(1, 20_000)))
            paths.add(result.receipt(20_000).path)
    assert len(paths) == 2
    assert all(Path(path).name.startswith("w1-") for path in paths)


def test_a_transfer_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def fail_midway() -> None:
        with Result(staged_work(tmp_path)) as result:
            result.append(rows(range(1, 40_000)))
            raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):
        fail_midway()
    assert list((tmp_path / "target" / "staging").iterdir()) == []


def chunk(rows: int, size: int, codec: str = "UNCOMPRESSED") -> DataChunk:
    """Return a chunk of so many rows and bytes."""
    return DataChunk((Page(memoryview(b""), (memoryview(bytes(size)),), size, rows),), codec)


@pytest.mark.parametrize(
    ("rows", "size", "is_taken"),
    [
        (LEAST_SPLICED_ROWS, 10, True),
        (LEAST_SPLICED_ROWS - 1, LEAST_SPLICED_BYTES - 1, False),
        (1, LEAST_SPLICED_BYTES, True),
    ],
)
def test_a_row_group_s_worth_of_data_is_taken_as_it_lies(
    tmp_path: Path, rows: int, size: int, is_taken: bool
) -> None:
    with Result(staged_work(tmp_path)) as result:
        assert result.splices(chunk(rows, size)) is is_taken


@pytest.mark.parametrize(
    ("compression", "taken"), [("none", {"UNCOMPRESSED", "LZ4", "ZSTD"}), ("s2", {"ZSTD"})]
)
def test_data_is_taken_that_is_packed_as_the_target_wants_it(
    tmp_path: Path, compression: str, taken: set[str]
) -> None:
    work = msgspec.structs.replace(staged_work(tmp_path), compression=compression)
    with Result(work) as result:
        found = {codec for codec in CODECS if result.splices(chunk(20_000, 10, codec))}
    assert found == taken


def test_while_the_disk_is_slow_only_packed_data_is_taken_as_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[float | None] = [1e6]
    monkeypatch.setattr(FileWriter, "disk_bytes_per_s", property(lambda writer: rates[-1]))
    with Result(staged_work(tmp_path)) as result:
        assert result.splices(chunk(20_000, 10)), "nothing was written yet"
        result.append(rows(range(1, 40_000)))
        assert not result.splices(chunk(20_000, 10))
        assert result.splices(chunk(20_000, 10, "ZSTD"))
        for quick in (None, 10e9):
            rates.append(quick)
            assert result.splices(chunk(20_000, 10))


@pytest.mark.parametrize(
    ("mirrored", "adoptive", "keeps"), [(True, True, True), (True, False, True), (False, True, False)]
)
def test_times_matter_to_mirrors(tmp_path: Path, mirrored: bool, adoptive: bool, keeps: bool) -> None:
    work = msgspec.structs.replace(staged_work(tmp_path), mirrored=mirrored, adoptive=adoptive)
    with Result(work) as result:
        assert result.keeps_times is keeps


def test_a_staging_directory_that_cannot_be_written_is_an_error_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("not a directory")
    with Result(staged_work(tmp_path)) as result, pytest.raises(DiskError):
        result.append(rows(range(1, 40_000)))
