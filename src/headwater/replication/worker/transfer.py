"""Copying one range: read it, keep what is wanted, return a receipt.

Spark's executors run this. It needs the store's files or its bucket, or the origin's API, but no part of the
engine.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from errno import ENOENT
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from headwater.disk import UMASK
from headwater.errors import BusError, DiskError, Error
from headwater.model.columns import Int64s
from headwater.model.copied import fits_in_path
from headwater.objects.object_error import ObjectError, Problem
from headwater.replication.work import LEAST_LINKED_BYTES, FileRange, Receipt, Work
from headwater.replication.worker.origin import OriginReader
from headwater.replication.worker.result import Result
from headwater.replication.worker.rewrite import Rewrite
from headwater.replication.worker.task_bucket import TaskBucket, open_bucket, open_file
from headwater.table import parquet
from headwater.table.arrow_tables import rows_of
from headwater.table.file_sums import FileSums
from headwater.table.output import footer_crc_of
from headwater.table.pages import DataChunk
from headwater.table.parquet import MAX_GROUP_BYTES, MAX_GROUP_ROWS, Footer
from headwater.table.rows import Rows, concat
from headwater.table.stored_bytes import StoredBytes
from headwater.table.stored_group import StoredFile, StoredGroup
from headwater.wire import column_bytes

READY_S = 0.05
"""How long an empty task sleeps, so that each of them runs in another worker."""
_FOOTERS_AT_ONCE = 8
_is_prepared = False
_decode_work = msgspec.msgpack.Decoder(Work).decode
_encode = msgspec.msgpack.Encoder().encode


def ready(_: int) -> None:
    """Sleep a moment, so that no two tasks that start at once share a worker."""
    prepare_worker()
    time.sleep(READY_S)


def prepare_worker() -> None:
    """Prepare a worker once, with everything imported that a transfer needs."""
    global _is_prepared
    if not _is_prepared:
        # Spark's worker collects garbage after each task, and would scan every module each time.
        gc.freeze()
        _is_prepared = True


def transfer_all(works: list[bytes]) -> list[bytes]:
    """Copy ranges one after the other; ranges and receipts are passed as bytes."""
    os.umask(UMASK)
    prepare_worker()
    return [_encode(transfer(_decode_work(work))) for work in works]


def transfer(work: Work) -> Receipt:
    """Return the receipt of a range; a failure is recorded in it and never raised."""
    try:
        bucket = open_bucket(work.tables)
        sources = origin_files(bucket, work.files)
        without_ids = bool(sources) and not work.tail and all(each.proves_no_ids for each in sources)
        if work.adoptive_without_ids and without_ids:
            work = msgspec.structs.replace(work, adoptive=True)
        with Result(work, bucket=bucket, may_have_ids=not without_ids) as result:
            rewrite = Rewrite(work)
            if (origin := origin_reader(work)) is not None:
                for rows in origin:
                    result.append(rewrite.apply(rows))
                receipt = result.receipt(origin.through)
                settled = bytes(origin.settled.serialize()) if origin.settled else b""
                return msgspec.structs.replace(
                    receipt, ts=origin.latest_ts, settled=settled, ack_key=origin.ack_key
                )
            _copy_files(work, sources, rewrite, result)
            if work.tail:
                rows = rows_of(column_bytes.decode(work.tail))
                result.append(rewrite.apply(between(rows, work)))
            return msgspec.structs.replace(result.receipt(work.stop_seq), without_ids=without_ids)
    except Exception as error:  # an exception in a task would fail the whole job
        return failed(work, reason_of(error))


def reason_of(error: Exception) -> str:
    """Return why a range could not be copied."""
    replaced = "was replaced while its range was planned"
    match error:
        case FileNotFoundError():
            return f"{error.filename} {replaced}"
        case ObjectError() if error.problem is Problem.MISSING:
            return f"{error.address} {replaced}"
        case DiskError() if error.errno == ENOENT and error.operation == "link":
            return f"{error.path} {replaced}"
        case BusError():
            return error.problem
        case Error() | OSError():
            return str(error)
    return f"{type(error).__name__}: {error}"


def failed(work: Work, reason: str) -> Receipt:
    """Return the receipt of a range that failed, with the reason in one line."""
    return Receipt(
        work=work.id,
        target=work.target,
        upstream=work.upstream,
        expected=work.expected,
        error=" ".join(reason.split()) or "unknown",
    )


def origin_reader(work: Work) -> OriginReader | None:
    """Return the reader of the origin's API, if the range is read there."""
    if work.origin is None:
        return None
    filters = work.filters or tuple(src or ">" for src, _ in work.transforms)
    return OriginReader(work.origin, work.start_seq, work.stop_seq, filters)


@dataclass(frozen=True, slots=True)
class OriginFile:
    """A file of the origin, and what its footer says."""

    file: FileRange
    opened: Path | StoredBytes
    footer: Footer
    sums: FileSums | None

    @classmethod
    def of(cls, bucket: TaskBucket | None, file: FileRange) -> OriginFile:
        opened = open_file(bucket, file.path)
        footer = parquet.read_footer(opened, footer_crc_of(file.path))
        return cls(file, opened, footer, parquet.read_sums(footer))

    @property
    def proves_no_ids(self) -> bool:
        return self.file.headerless if self.sums is None else self.sums.prove_no_ids


def origin_files(bucket: TaskBucket | None, files: Sequence[FileRange]) -> list[OriginFile]:
    """Return the files with their footers; in a bucket each costs a request, so some are made at once."""
    if bucket is None or len(files) < 2:
        return [OriginFile.of(bucket, file) for file in files]
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as threads:
        return list(threads.map(lambda file: OriginFile.of(bucket, file), files))


def _copy_files(work: Work, sources: Iterable[OriginFile], rewrite: Rewrite, result: Result) -> None:
    """Add the wanted rows of the files to the result, by row group or as whole files."""
    removed = BitMap64.deserialize(work.removed) if work.removed else BitMap64()
    for source in sources:
        file, footer, sums = source.file, source.footer, source.sums
        if sums is not None and not rewrite.wants_any(sums.subjects.keys()):
            continue
        if sums is not None and rewrite.keeps_subjects and _is_whole(work, source, sums, removed):
            result.link(file, sums, footer.file_bytes)
            continue
        with StoredFile(source.opened, footer, file.base_seq, sums, file.copied) as stored_file:
            groups = stored_file.groups(wanted_groups(work, file, footer, removed))
            wanted = (
                live_rows(work, group, removed, rewrite, timed=result.keeps_times, splices=result.splices)
                for group in groups
            )
            for rows in _joined(wanted):
                result.append(rewrite.made(rows))


def _is_whole(work: Work, source: OriginFile, sums: FileSums, removed: BitMap64) -> bool:
    """Return whether the target can link a whole file: nothing in it is removed or outside of the range."""
    file = source.file
    span = file.last_seq - file.first_seq + 1
    return (
        (_can_be_sourced(work, source, sums) if work.source_header else _can_be_mirrored(work, file))
        and work.adoptive
        and work.linkable
        and not sums.demands
        and work.start_seq <= file.first_seq
        and file.last_seq <= work.stop_seq
        and removed.range_cardinality(file.first_seq, file.last_seq + 1) == span - sums.rows
    )


def _can_be_mirrored(work: Work, file: FileRange) -> bool:
    return work.mirrored and (file.copied is None or work.traceable)


def _can_be_sourced(work: Work, source: OriginFile, sums: FileSums) -> bool:
    """Return whether a file needs no changes except where its messages came from, which can be recorded."""
    file = source.file
    return (
        work.traceable
        and work.source_header is not None
        and fits_in_path(work.source_header)
        and sums.rows == file.last_seq - file.first_seq + 1
        and (sums.tidy or not sums.with_headers)
        and source.footer.file_bytes >= LEAST_LINKED_BYTES
    )


def wanted_groups(work: Work, file: FileRange, footer: Footer, removed: BitMap64) -> Iterator[int]:
    """Yield the row groups of a file that contain messages of a range."""
    for index, (first_offset, last_offset) in enumerate(footer.bounds):
        first, last = file.base_seq + first_offset, file.base_seq + last_offset
        is_near = first <= work.stop_seq and last >= work.start_seq
        if is_near and removed.range_cardinality(first, last + 1) < last - first + 1:
            yield index


def live_rows(
    work: Work,
    group: StoredGroup,
    removed: BitMap64,
    rewrite: Rewrite,
    *,
    timed: bool,
    splices: Callable[[DataChunk], bool],
) -> Rows:
    """Return the wanted messages of a row group, unchanged if that is all of it and `splices` allows it."""
    stored = group.rows(timed=timed, add_source=work.source_header is None)
    kept = rewrite.wanted(stored)
    seqs = stored.seqs
    if seqs[0] < work.start_seq or seqs[-1] > work.stop_seq:
        kept &= (seqs >= work.start_seq) & (seqs <= work.stop_seq)
    if removed.range_cardinality(int(seqs[0]), int(seqs[-1]) + 1):
        kept &= ~gone(seqs, removed)
    count = np.count_nonzero(kept)
    if not count:
        return stored.none()
    if count == len(stored) and isinstance(stored.datas, DataChunk) and splices(stored.datas):
        return stored
    return group.opened(stored).filter(kept)


def _joined(runs: Iterable[Rows]) -> Iterator[Rows]:
    """Yield what is left of row groups in runs that are about as long as one.

    Most of the work per run costs as much for a few messages as for many.
    """
    waiting: list[Rows] = []
    rows = size = 0
    for run in runs:
        is_whole = isinstance(run.datas, DataChunk)
        rows, size = rows + len(run), size + run.payload_bytes
        if waiting and (is_whole or rows > MAX_GROUP_ROWS or size > MAX_GROUP_BYTES):
            yield concat(waiting)
            waiting, rows, size = [], len(run), run.payload_bytes
        if is_whole:
            yield run
            rows = size = 0
        elif len(run):
            waiting.append(run)
    if waiting:
        yield concat(waiting)


def gone(seqs: Int64s, removed: BitMap64) -> npt.NDArray[np.bool_]:
    """Return which of these sequences are removed."""
    first, last = int(seqs[0]), int(seqs[-1])
    is_dense = last - first + 1 == len(seqs)
    gone = removed & BitMap64(range(first, last + 1) if is_dense else seqs.tolist())
    return np.isin(seqs, np.array(gone.to_array(), np.int64), assume_unique=True)


def between(rows: Rows, work: Work) -> Rows:
    """Return the messages within the range of the work."""
    seqs = rows.seqs
    start, stop = np.searchsorted(seqs, [work.start_seq, work.stop_seq + 1]).tolist()
    return rows if start == 0 and stop == len(rows) else rows.slice(start, stop)
