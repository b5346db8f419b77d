"""The durable head of a stream: batches in segments, appended, synced, replayed (docs/internals/log.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from errno import EEXIST
from pathlib import Path

from headwater.disk import AppendFile, Disk
from headwater.errors import CorruptionError, DiskError
from headwater.fence import NO_FENCE, Fence
from headwater.log import newest
from headwater.log.batch import StoredBatch, is_intact
from headwater.log.recovery import recover
from headwater.log.segment import Damage, Position, SegmentHeader, records, scan, segment_path

STRANGERS = 1000
"""The most segments of a fenced owner that are skipped; more mean that something else is wrong."""


class Log:
    """Batches in order of appending; one thread writes, any thread reads and trims.

    What was there at open is never appended to: an owner that was fenced may still have the file open. The
    first append starts a segment of its own, whose header seals the one before.
    """

    def __init__(
        self, directory: Path, disk: Disk, fence: Fence = NO_FENCE, record: Path | None = None
    ) -> None:
        self._directory = directory
        self._disk = disk
        self._fence = fence
        self._record = record
        """The file that names the newest segment; None if there is no such file."""
        self._lengths: dict[int, int] = {}
        """Length of every segment that is not void, ascending; of a sealed one, its seal."""
        self._file: AppendFile | None = None
        """The newest segment, None as long as nothing was appended since open."""
        self._durable = 0
        """Bytes of the segment that are synced."""
        self._highest = 0
        """The highest number ever tried, so that none is tried twice."""
        self._failed = False
        """Whether a change of the file has begun and not succeeded; it must be rolled back."""
        self._closed = False
        self._epoch = fence.epoch
        self._torn: list[Damage] = []
        """Damage that was found when the log was opened."""
        self._found: list[Damage] = []
        """Damage that the last read of all records found."""
        self.segment = 0
        """The number of the segment that is written."""
        self.missing = ""
        """Which segments at the end of the log were not there at open, as a person reads it."""

    @classmethod
    def open(
        cls,
        directory: Path,
        disk: Disk,
        *,
        from_segment: int = 0,
        fence: Fence = NO_FENCE,
        record: Path | None = None,
    ) -> Log:
        """Return the log, created if it is missing; everything in it is durable.

        With `record`, a file in that place names the newest segment (`log/newest.py`).
        """
        log = cls(directory, disk, fence, record)
        fence.check()  # the log may belong to another engine by now, so check before removing any of it
        recorded = newest.known(disk, record) if record is not None else 0
        recovered = recover(directory, disk, from_segment)
        log._epoch = fence.epoch
        if recovered.epoch > fence.epoch:
            # The engine with that epoch may own the store by now. If not, the store lost its epoch; the log
            # continues with the one it knows, because a lower one would mark us as the fenced owner.
            fence.check()
            log._epoch = recovered.epoch
        log._torn = recovered.damage
        if recovered.is_missing:
            log.missing = f"segment {from_segment} and all later ones are missing"
        elif recorded > max(recovered.lengths, default=0):
            log.missing = f"segment {recorded}, the newest one, is missing"
        log._highest = max(recovered.highest, recorded)
        log._lengths = recovered.lengths
        if recovered.lengths:
            log.segment, log._durable = max(recovered.lengths.items())
        return log

    @property
    def damage(self) -> list[Damage]:
        """Return what open and the last replay found that cannot be served."""
        return self._torn + self._found

    @property
    def size_bytes(self) -> int:
        """Return the length of all segments."""
        return sum(list(self._lengths.values()))

    @property
    def segment_count(self) -> int:
        """Return how many segments there are."""
        return len(self._lengths)

    def replay(self, from_segment: int = 0) -> Iterator[tuple[Position, StoredBatch]]:
        """Yield every intact batch from a segment on, in order; what is damaged is skipped and recorded."""
        self._found = []
        for number, length in list(self._lengths.items()):
            if number < from_segment:
                continue
            for item in scan(self._disk, self._directory, number, length):
                if isinstance(item, Damage):
                    self._found.append(item)
                else:
                    yield item

    def append(self, encoded: Sequence[bytes]) -> list[Position]:
        """Return the positions of the batches once they are written; they are durable after `sync`."""
        file = self._writable()
        buffers, positions = records(self.segment, file.size, encoded)
        self._failed = True
        file.write(buffers)
        self._failed = False
        self._lengths[self.segment] = file.size
        return positions

    def sync(self) -> None:
        """Return once everything appended would survive a power cut, and the store is still ours.

        A take-over first raises the epoch and then reads the log. So if the epoch is unchanged after a sync,
        the next owner will find what was synced.
        """
        file = self._writable()
        if self._durable == file.size:
            return
        self._failed = True
        file.sync()
        self._fence.check()
        self._failed = False
        self._durable = file.size

    def rollback(self) -> None:
        """Return once everything since the last sync is discarded durably; on an error, call it again."""
        self._failed = True
        # Truncating may fail or not reach the disk: the new segment's header seals the old one in any case.
        if self._file is not None:
            with suppress(DiskError):
                self._file.truncate(self._durable)
            self._lengths[self.segment] = self._durable
        self._start()

    def rotate(self) -> int:
        """Return the number of a new segment, once it durably follows the current one, which is synced."""
        assert not self._failed, "a failed log must be rolled back first"
        assert self._file is None or self._durable == self._file.size
        self._start()
        return self.segment

    def read(self, position: Position) -> StoredBatch:
        """Return the batch at a position, checked; any thread may call it."""
        path = segment_path(self._directory, position.segment)
        encoded = self._disk.read(path, position.offset, position.length)
        if not is_intact(encoded):
            raise CorruptionError(path, position.offset, "the checksum of a batch does not match")
        return StoredBatch(encoded)

    def trim(self, below_segment: int) -> None:
        """Return once no segment below this one is left; any thread may call it."""
        assert below_segment <= self.segment
        for number in [n for n in list(self._lengths) if n < below_segment]:
            self._fence.check()
            self._remove(number)
            del self._lengths[number]

    def close(self) -> None:
        """Close the files; what was not synced stays so."""
        self._closed = True
        self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _writable(self) -> AppendFile:
        assert not self._closed, "the log is closed"
        assert not self._failed, "a failed log must be rolled back first"
        if self._file is None:
            self._start()
        assert self._file is not None
        return self._file

    def _remove(self, number: int) -> None:
        self._disk.remove(segment_path(self._directory, number))

    def _start(self) -> None:
        """Continue in a new segment; seal the current one at its durable length."""
        # From here on a header that seals the current segment may be on disk, so nothing more may be
        # appended to it, even if this fails.
        self._failed = True
        self._fence.check()
        number, file = self._create()
        header = SegmentHeader(number, self.segment, self._durable, self._epoch)
        try:
            file.write([header.encode()])
            file.sync()
            self._disk.sync_dir(self._directory)
            if self._record is not None:
                newest.write(self._disk, self._record, number)
        except DiskError:
            file.close()
            # A leftover segment is void, since the next attempt has a higher number.
            with suppress(DiskError):
                self._discard(number)
            raise
        self._close_file()
        self._file = file
        self.segment = number
        self._durable = self._lengths[number] = file.size
        self._failed = False

    def _discard(self, number: int) -> None:
        """Remove a segment that could not be started, unless the record may name it."""
        if self._record is None or newest.known(self._disk, self._record) < number:
            self._remove(number)

    def _create(self) -> tuple[int, AppendFile]:
        """Return a new file that did not exist before, and its number.

        One that is there already was made by another owner since open. If that one was fenced, its segment
        is void, since our header names the one before it.
        """
        for _ in range(STRANGERS):
            self._highest += 1
            try:
                path = segment_path(self._directory, self._highest)
                return self._highest, self._disk.create_append(path)
            except DiskError as error:
                if error.errno != EEXIST:
                    raise
                self._fence.check()
        raise DiskError(self._directory, "open", EEXIST)
