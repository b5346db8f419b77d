"""One part of a bulk write: messages that become a staged file, checked as they arrive.

The engine writes the file itself and chooses its name. No byte of it comes from the client unchecked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

import numpy as np
import pyarrow as pa

from headwater.errors import DiskError, Error
from headwater.model.adopted import Adopted
from headwater.model.columns import Buffer
from headwater.model.subject import Filter, valid_literal
from headwater.stream.bulk.header_blocks import HeaderBlocks
from headwater.table.adopted_sums import adopted_of
from headwater.table.parquet import MAX_GROUP_BYTES, MAX_GROUP_ROWS, FileWriter
from headwater.table.rows import Rows, concat
from headwater.table.schema import subject_text
from headwater.table.staging import BEGUN, WRITTEN, Staging
from headwater.wire.bulk_rows import BulkRows, Numbers

MOST_HEADER_BYTES = 65_535
MOST_SUBJECT_BYTES = 4096
"""As long as a line of a publish may be: no client could take a message with a longer subject."""
ROW_BYTES = 32
"""What a waiting message takes besides its headers and data."""


class BulkRefusedError(Error):
    """Messages of a bulk write that the stream does not take."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A finished part."""

    adopted: Adopted
    largest: int
    """The size of the largest message: its headers and data."""
    is_ruled: bool
    """Whether a message has a header, other than its id, that the rules of publishing look at."""
    patterns: tuple[str, ...]
    """The subjects of the stream when the messages were checked."""
    has_ids: bool = False
    """Whether a message has an id."""
    last_id: bytes = b""
    """The id of the last message."""


class StagedPart:
    """Takes messages in order; every call blocks and runs on a thread, one at a time."""

    def __init__(self, staging: Staging, subjects: Sequence[str], compression: str, now_ns: int) -> None:
        self._staging = staging
        self._patterns = tuple(subjects)
        self._filters = [Filter(subject) for subject in subjects]
        self._compression = compression
        self._started_ns = now_ns
        self._stem = f"{WRITTEN}{uuid4().hex}"
        self._known: set[bytes] = set()
        """Subjects that were checked."""
        self._waiting: list[Rows] = []
        """Messages that wait for a full row group."""
        self._waiting_rows = self._waiting_bytes = 0
        self._rows = 0
        self._largest = 0
        self._is_ruled = self._has_ids = False
        self._last_id = b""
        self.nbytes = 0
        """The bytes of all messages so far."""
        self._writer: FileWriter | None = None
        """Writes the file; None until the first row group is full."""
        self._temporary = staging.begin(f"{self._stem}{BEGUN}")

    @property
    def subject_count(self) -> int:
        """Return how many subjects the messages so far have."""
        return len(self._known)

    @property
    def held_bytes(self) -> int:
        """Return about how many bytes wait in memory."""
        return self._waiting_bytes + self._waiting_rows * ROW_BYTES

    def append(self, rows: BulkRows, *, at_once: bool = False) -> None:
        """Take messages; raise if one of them may not be in the stream.

        Those that fill no row group wait in memory for more, unless they are to be written `at_once`.
        """
        if not len(rows):
            return
        headers = binary_values(rows.header_lengths, rows.headers, nullable=True)
        self._check(rows, headers)
        numbers = np.arange(self._rows, self._rows + len(rows), dtype=np.int64)
        subjects = _subjects_of(rows)
        datas = binary_values(rows.data_lengths, rows.datas)
        self._rows += len(rows)
        size = len(rows.headers) + len(rows.datas)
        self.nbytes += size
        self._waiting.append(Rows(numbers, numbers + self._started_ns, subjects, headers, datas))
        self._waiting_rows += len(rows)
        self._waiting_bytes += size
        if at_once or self._waiting_rows >= MAX_GROUP_ROWS or self._waiting_bytes >= MAX_GROUP_BYTES:
            self._write()

    def finish(self) -> StagedFile:
        """Return the file once it would survive a power cut."""
        if not self._rows:
            raise BulkRefusedError("a part without messages")
        try:
            self._write()
            assert self._writer is not None
            stats = self._writer.finish()
            assert stats.sums is not None
            name = f"{self._stem}-{stats.footer_crc:08x}.parquet"
            self._staging.finish(self._temporary, name)
        except OSError as error:
            raise DiskError(self._temporary, "write", error.errno or 0) from error
        adopted = adopted_of(name, stats.content.size_bytes, stats.sums)
        return StagedFile(
            adopted, self._largest, self._is_ruled, self._patterns, self._has_ids, self._last_id
        )

    def abandon(self) -> None:
        """Remove the unfinished file."""
        try:
            if self._writer is not None:
                self._writer.abandon()
            self._staging.abandon(self._temporary)
        except (OSError, DiskError):
            pass  # the next open of the stream removes it

    def _check(self, rows: BulkRows, headers: pa.BinaryArray) -> None:
        used = np.unique(rows.codes).tolist()
        for subject in {rows.subjects[code] for code in used} - self._known:
            self._check_subject(subject)
        sizes = rows.header_lengths.astype(np.int64) + rows.data_lengths
        self._largest = max(self._largest, int(sizes.max()))
        self._last_id = b""
        if not rows.headers:
            return
        if int(rows.header_lengths.max()) > MOST_HEADER_BYTES:
            raise BulkRefusedError(f"a message has more than {MOST_HEADER_BYTES} bytes of headers")
        blocks = HeaderBlocks(headers)
        if not blocks.are_valid:
            raise BulkRefusedError("a message has a malformed header block")
        self._is_ruled |= blocks.are_ruled
        self._has_ids |= blocks.have_ids
        self._last_id = blocks.last_id

    def _check_subject(self, subject: bytes) -> None:
        if len(subject) > MOST_SUBJECT_BYTES:
            raise BulkRefusedError(f"a subject has more than {MOST_SUBJECT_BYTES} bytes")
        try:
            text = subject.decode()
        except UnicodeDecodeError:
            raise BulkRefusedError(f"the subject {subject!r} is not UTF-8") from None
        if not valid_literal(text) or not any(each.matches(subject) for each in self._filters):
            raise BulkRefusedError(f"the stream does not have the subject {text!r}")
        self._known.add(subject)

    def _write(self) -> None:
        """Write the waiting messages as row groups."""
        if not self._waiting:
            return
        if self._writer is None:
            self._writer = FileWriter(self._temporary, 0, self._compression, most_subjects=None, spliced=True)
        for part in concat(self._waiting).cuts(MAX_GROUP_ROWS, MAX_GROUP_BYTES * 3 // 2):
            self._writer.append_group(part)
        self._waiting = []
        self._waiting_rows = self._waiting_bytes = 0


def _subjects_of(rows: BulkRows) -> pa.DictionaryArray:
    """Return the subjects as codes into only those that are used, each once."""
    used, codes = np.unique(rows.codes, return_inverse=True)
    distinct: dict[bytes, int] = {}
    places = [distinct.setdefault(rows.subjects[code], len(distinct)) for code in used.tolist()]
    indices = np.asarray(places, np.int32)[codes]
    return pa.DictionaryArray.from_arrays(
        pa.array(indices), pa.array([subject_text(each) for each in distinct])
    )


def binary_values(lengths: Numbers, joined: Buffer, *, nullable: bool = False) -> pa.BinaryArray:
    """Return joined bytes as an array, not copied; with `nullable` an empty value is none."""
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    present = lengths > 0
    nulls = len(lengths) - int(present.sum()) if nullable else 0
    mask = pa.py_buffer(np.packbits(present, bitorder="little")) if nulls else None
    buffers = [mask, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(joined)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers, null_count=nulls)
