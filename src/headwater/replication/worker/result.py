"""The result of a transfer: inline in its receipt if small, or files that are staged for the target."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from types import TracebackType
from urllib.parse import quote

import msgspec
import numpy as np

from headwater.errors import DiskError
from headwater.model.adopted import Adopted
from headwater.model.copied import Copied
from headwater.replication.work import INLINE_BYTES, FileRange, Receipt, Work
from headwater.replication.worker.result_files import ResultFiles, result_files
from headwater.replication.worker.task_bucket import TaskBucket
from headwater.table.adopted_sums import adopted_of
from headwater.table.file_sums import MOST_SUBJECTS, FileSums
from headwater.table.output import footer_crc_of
from headwater.table.pages import DataChunk
from headwater.table.parquet import MAX_GROUP_BYTES, MAX_GROUP_ROWS, FileStats, FileWriter
from headwater.table.rows import Rows, concat
from headwater.wire import column_bytes

# Per message besides its bytes: sequence, time and three lengths; and once per result the column framing.
_ROW_BYTES = 28
_FRAME_BYTES = 64
SLOW_BYTES_PER_S = 250e6
"""If the disk writes slower than this, compressing data saves more time than it takes."""
LEAST_SPLICED_ROWS = MAX_GROUP_ROWS // 4
LEAST_SPLICED_BYTES = MAX_GROUP_BYTES // 4
"""A row group with fewer of both is merged with its neighbours."""
UPLOADED_BYTES = 16 << 20
"""In a bucket a file ends at about this size: it is uploaded while the next one is written."""
SUMS_BYTES = 128 << 10
"""Sums over files that are longer than this go into a file of their own."""


class Result:
    """Collects messages in ascending sequence; leaving the `with` before the receipt removes its files."""

    def __init__(
        self,
        work: Work,
        *,
        bucket: TaskBucket | None = None,
        may_have_ids: bool = True,
        renumbers: bool = False,
    ) -> None:
        """Collect the result of a range; with `renumbers` several messages may have one sequence.

        Files have ascending numbers, so the origin's sequences are only in the headers then.
        """
        self._work = work
        self._renumbers = renumbers
        self._may_have_ids = may_have_ids
        self._files = result_files(bucket, work.staging)
        self._stem = f"{quote(work.id, safe='')}-{uuid.uuid4().hex}"
        """The prefix of this attempt's file names, unique among attempts."""
        self._waiting: list[Rows] = []
        """Messages that are not in a file yet."""
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._rows = 0
        """How many messages were added in all."""
        self._open: _StagedFile | None = None
        """The file that is being written."""
        self._names: list[str] = []
        """Every file of this attempt, to be removed if it fails."""
        self._adopted: list[Adopted] = []
        """What the receipt says of each finished file."""
        self._linked_bytes = 0
        """The size of the origin's files that were linked, not read."""

    def __enter__(self) -> Result:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open is not None:
            self._open.abandon()
        for name in self._names:
            self._files.remove(name)
        self._files.close()

    @property
    def keeps_times(self) -> bool:
        """Return whether messages keep their times; otherwise they get the time of the copy."""
        return self._work.mirrored or not self._work.adoptive

    def splices(self, chunk: DataChunk) -> bool:
        """Return whether stored data is copied without recompression: a full row group, compressed as wanted.

        If the disk cannot keep up, compressing to write less is better.
        """
        is_packed = chunk.codec != "UNCOMPRESSED"
        return (
            (chunk.rows >= LEAST_SPLICED_ROWS or chunk.packed_bytes >= LEAST_SPLICED_BYTES)
            and (self._work.compression == "none" or chunk.codec == "ZSTD")
            and (is_packed or self._open is None or not self._open.is_held_up)
        )

    def append(self, rows: Rows) -> None:
        """Add messages; memory contains no more of them than a receipt or a row group."""
        if not len(rows):
            return
        if isinstance(rows.datas, DataChunk):
            self._splice(rows)
            return
        size = _ROW_BYTES * len(rows) + int(rows.subject_lengths.sum()) + rows.payload_bytes
        if self._open is not None and (
            self._waiting_rows + len(rows) > MAX_GROUP_ROWS or self._waiting_bytes + size > MAX_GROUP_BYTES
        ):
            self._write()
            self._end_if_long()
        self._waiting.append(rows)
        self._rows += len(rows)
        self._waiting_rows += len(rows)
        self._waiting_bytes += size
        if self._open is None and (self._names or self._waiting_bytes + _FRAME_BYTES > INLINE_BYTES):
            self._begin()

    def _splice(self, rows: Rows) -> None:
        """Write messages as the row group that they already are."""
        self._begin()
        self._write()
        assert self._open is not None
        self._open.append(rows)
        self._rows += len(rows)
        self._end_if_long()

    def link(self, file: FileRange, sums: FileSums, size: int) -> None:
        """Add all messages of a file of this size, which the target can use unchanged.

        A source's messages are new ones in the target, except for what the file stores.
        """
        self._end()
        name = f"{self._stem}-{len(self._names)}-{footer_crc_of(file.path) or 0:08x}.parquet"
        self._names.append(name)
        self._files.copy(file.path, name)
        self._linked_bytes += size
        copied = file.copied
        if (header := self._work.source_header) is not None:
            copied = Copied(
                header[0], header[3], file.base_seq, 0, sums.first_ts, sums.last_ts, sums.with_headers
            )
        self._adopted.append(adopted_of(name, size, sums, file.base_seq, copied))
        self._rows += sums.rows

    def receipt(self, through: int) -> Receipt:
        """Return the receipt: everything wanted up to `through` is in this result."""
        work = self._work
        data, path, sums = b"", "", ""
        if self._open is None and not self._names:
            data = column_bytes.encode(concat(self._waiting).columns()) if self._waiting else b""
        else:
            self._end()
            sums = self._written_sums()
            self._files.settle()
            path = "" if work.adoptive else self._names[0]
        self._names = []
        return Receipt(
            work=work.id,
            target=work.target,
            upstream=work.upstream,
            expected=work.expected,
            through=through,
            rows=self._rows,
            data=data,
            path=path,
            adopted=() if sums else tuple(self._adopted),
            sums=sums,
            linked_bytes=self._linked_bytes,
            renumbered=self._renumbers and bool(path),
        )

    def _begin(self) -> None:
        if self._open is None:
            stem = f"{self._stem}-{len(self._names)}"
            self._open = _StagedFile(self._work, self._files, stem, self._may_have_ids, self._renumbers)

    def _end(self) -> None:
        """Finish the file that is being written, if there is one."""
        if self._waiting:
            self._begin()
            self._write()
        if self._open is not None:
            name, stats = self._open.finish()
            self._names.append(name)
            self._open = None
            if self._work.adoptive:
                assert stats.sums is not None
                self._adopted.append(adopted_of(name, stats.content.size_bytes, stats.sums))

    def _write(self) -> None:
        assert self._open is not None
        if self._waiting:
            self._open.append(concat(self._waiting))
        self._waiting = []
        self._waiting_rows = self._waiting_bytes = 0

    def _end_if_long(self) -> None:
        """Finish a file in a bucket that is long enough to be uploaded; a target adopts several."""
        is_long = self._open is not None and self._open.size_bytes >= UPLOADED_BYTES
        if is_long and self._work.adoptive and not self._files.is_direct:
            self._end()

    def _written_sums(self) -> str:
        """Return the name of the file with the sums, if they are too long for a receipt."""
        encoded = msgspec.msgpack.encode(self._adopted)
        if len(encoded) <= SUMS_BYTES:
            return ""
        name = f"{self._stem}.sums"
        self._files.write(name, encoded)
        return name


class _StagedFile:
    """A file being written, with a name that no other attempt at the same range has."""

    def __init__(
        self, work: Work, files: ResultFiles, stem: str, may_have_ids: bool, renumbers: bool
    ) -> None:
        self._files = files
        self._stem = stem
        self._temporary = files.begin(f"{stem}.tmp")
        self._renumber = (work.adoptive and not work.mirrored) or renumbers
        self._started_ns = time.time_ns()
        try:
            self._writer = FileWriter(
                self._temporary,
                0,
                work.compression,
                most_subjects=None if work.adoptive else MOST_SUBJECTS,
                # The source headers of neighbouring messages differ in a digit or two.
                packed={"headers": "zstd"} if work.source_header is not None else {},
                may_demand=False,
                may_have_ids=may_have_ids,
                spliced=True,
                # Other files are read again at once and then removed.
                direct=work.adoptive and files.is_direct,
            )
        except OSError as error:
            files.abandon(self._temporary)
            raise self._refused(error) from error

    @property
    def is_held_up(self) -> bool:
        """Return whether the disk is the bottleneck."""
        rate = self._writer.disk_bytes_per_s
        return rate is not None and rate < SLOW_BYTES_PER_S

    @property
    def size_bytes(self) -> int:
        """Return how much was written."""
        return self._writer.size_bytes

    def append(self, rows: Rows) -> None:
        if self._renumber:
            rows = self._renumbered(rows)
        self._writer.packs_data = self.is_held_up
        try:
            for part in rows.cuts(MAX_GROUP_ROWS, MAX_GROUP_BYTES * 3 // 2):
                self._writer.append_group(part)
        except OSError as error:
            raise self._refused(error) from error

    def _renumbered(self, rows: Rows) -> Rows:
        """Return the messages numbered from 0 with the time of the copy, as a source's are new messages."""
        numbers = np.arange(self._writer.rows, self._writer.rows + len(rows), dtype=np.int64)
        return replace(rows, seqs=numbers, ts=numbers + self._started_ns)

    def finish(self) -> tuple[str, FileStats]:
        """Return the file's name once its content is durable; its name contains the footer's checksum."""
        try:
            stats = self._writer.finish()
        except OSError as error:
            raise self._refused(error) from error
        name = f"{self._stem}-{stats.footer_crc:08x}.parquet"
        self._files.finish(self._temporary, name)
        return name, stats

    def abandon(self) -> None:
        """Remove the unfinished file; if that fails, the engine sweeps the directory later."""
        try:
            self._writer.abandon()
        except OSError:
            pass
        self._files.abandon(self._temporary)

    def _refused(self, error: OSError) -> DiskError:
        return DiskError(self._temporary, "write", error.errno or 0)
