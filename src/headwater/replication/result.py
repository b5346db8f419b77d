"""What a transfer has copied: small enough for its receipt, or a file in the target's staging directory."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

import numpy as np

from headwater.disk import RealDisk
from headwater.errors import DiskError
from headwater.model.adopted import Adopted
from headwater.model.columns import Columns, concat
from headwater.replication.sums import Sums
from headwater.replication.work import INLINE_BYTES, Receipt, Work
from headwater.table.parquet import MAX_GROUP_BYTES, MAX_GROUP_ROWS, FileWriter
from headwater.wire import column_bytes

# Of each message beside its bytes: sequence, time and three lengths; and once what frames the columns.
_ROW_BYTES = 28
_FRAME_BYTES = 64


class Result:
    """Takes messages in ascending sequence; leaving the `with` before the receipt is made leaves no file."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._disk = RealDisk()
        self._waiting: list[Columns] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._rows = 0
        self._staged: _StagedFile | None = None

    def __enter__(self) -> Result:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._staged is not None:
            self._staged.abandon()

    def append(self, columns: Columns) -> None:
        """Take messages; memory holds no more of them than a receipt or a row group does."""
        if not len(columns):
            return
        self._waiting.append(columns)
        self._rows += len(columns)
        self._waiting_rows += len(columns)
        self._waiting_bytes += (
            _ROW_BYTES * len(columns) + len(columns.subjects) + len(columns.headers) + len(columns.datas)
        )
        if self._staged is None:
            if self._waiting_bytes + _FRAME_BYTES <= INLINE_BYTES:
                return
            self._staged = _StagedFile(self._work, self._disk)
        if self._waiting_rows >= MAX_GROUP_ROWS or self._waiting_bytes >= MAX_GROUP_BYTES:
            self._write()

    def receipt(self, through: int) -> Receipt:
        """Return what the engine is told: everything wanted up to `through` is here."""
        work = self._work
        data, path = b"", ""
        adopted: Adopted | None = None
        if self._staged is not None:
            self._write()
            staged, adopted = self._staged.finish()
            path = str(staged)
            self._staged = None
        elif self._waiting:
            data = column_bytes.encode(concat(self._waiting))
        return Receipt(
            work=work.id,
            target=work.target,
            upstream=work.upstream,
            expected=work.expected,
            through=through,
            rows=self._rows,
            data=data,
            path=path,
            adopted=adopted,
        )

    def _write(self) -> None:
        assert self._staged is not None
        if self._waiting:
            self._staged.append(concat(self._waiting))
        self._waiting = []
        self._waiting_rows = self._waiting_bytes = 0


class _StagedFile:
    """A file in the making under a name that no other attempt at the same work has."""

    def __init__(self, work: Work, disk: RealDisk) -> None:
        self._disk = disk
        self._directory = Path(work.staging)
        self._stem = f"{quote(work.id, safe='')}-{uuid.uuid4().hex}"
        self._temporary = self._directory / f"{self._stem}.tmp"
        disk.mkdir(self._directory)
        self._sums = Sums() if work.adoptive else None
        self._renumber = work.adoptive and not work.mirrored
        self._started_ns = time.time_ns()
        try:
            self._writer = FileWriter(self._temporary, base_seq=0)
        except OSError as error:
            raise self._refused(error) from error

    def append(self, columns: Columns) -> None:
        if self._renumber:
            columns = self._anew(columns)
        if self._sums is not None:
            self._sums.add(columns)
        try:
            self._writer.append(columns)
        except OSError as error:
            raise self._refused(error) from error

    def _anew(self, columns: Columns) -> Columns:
        """Return the messages numbered from 0, with the time of their copy, as a source's are new ones."""
        numbers = np.arange(self._writer.rows, self._writer.rows + len(columns), dtype=np.int64)
        return replace(columns, seqs=numbers, ts=numbers + self._started_ns)

    def finish(self) -> tuple[Path, Adopted | None]:
        """Return the file once it would survive a power cut; its name tells the footer's checksum."""
        try:
            stats = self._writer.finish()
        except OSError as error:
            raise self._refused(error) from error
        path = self._directory / f"{self._stem}-{stats.footer_crc:08x}.parquet"
        self._disk.sync_file(self._temporary)
        self._disk.rename(self._temporary, path)
        self._disk.sync_dir(self._directory)
        return path, self._sums.adopted(path.name, stats) if self._sums is not None else None

    def abandon(self) -> None:
        """Remove the unfinished file; should even that fail, the engine sweeps the directory."""
        try:
            self._writer.abandon()
            self._disk.remove(self._temporary)
        except (OSError, DiskError):
            pass

    def _refused(self, error: OSError) -> DiskError:
        return DiskError(self._temporary, "write", error.errno or 0)
