"""The durable head of a stream: batches in segments, appended, synced, replayed (docs/internals/log.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from headwater.disk import AppendFile, Disk
from headwater.errors import CorruptionError, DiskError
from headwater.log.batch import StoredBatch, is_intact
from headwater.log.recovery import recover
from headwater.log.segment import Damage, Position, SegmentHeader, records, scan, segment_path


class Log:
    """Batches in order of appending; one thread writes, any thread reads and trims."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._directory = directory
        self._disk = disk
        self._lengths: dict[int, int] = {}
        """Length of every segment that is not void, ascending; of a sealed one, its seal."""
        self._file: AppendFile | None = None
        self._durable = 0
        self._highest = 0
        """The highest number ever tried, so that none is tried twice."""
        self._failed = False
        self._cut: list[Damage] = []
        self._found: list[Damage] = []
        self.segment = 0

    @classmethod
    def open(cls, directory: Path, disk: Disk, *, from_segment: int = 0) -> Log:
        """Return the log, made if it was missing, with all that it holds durable and its torn tail cut."""
        log = cls(directory, disk)
        recovered = recover(directory, disk, from_segment)
        log._cut = recovered.damage
        log._highest = recovered.highest
        log._lengths = recovered.lengths
        if recovered.lengths:
            log.segment, log._durable = max(recovered.lengths.items())
            log._file = disk.open_append(segment_path(directory, log.segment))
        else:
            log._start()
        return log

    @property
    def damage(self) -> list[Damage]:
        """Return what the last open cut and what replay found that cannot be served."""
        return self._cut + self._found

    @property
    def size_bytes(self) -> int:
        """Return the length of all segments."""
        return sum(list(self._lengths.values()))

    @property
    def segment_count(self) -> int:
        """Return how many segments there are."""
        return len(self._lengths)

    def replay(self) -> Iterator[tuple[Position, StoredBatch]]:
        """Yield every intact batch in order; what is damaged is skipped and recorded."""
        self._found = []
        for number, length in list(self._lengths.items()):
            for item in scan(self._disk, self._directory, number, length):
                if isinstance(item, Damage):
                    self._found.append(item)
                else:
                    yield item

    def append(self, encoded: Sequence[bytes]) -> list[Position]:
        """Return where the batches lie once they are written; they are durable after `sync`."""
        file = self._writable()
        buffers, positions = records(self.segment, file.size, encoded)
        self._failed = True
        file.write(buffers)
        self._failed = False
        self._lengths[self.segment] = file.size
        return positions

    def sync(self) -> None:
        """Return once everything appended would survive a power cut."""
        file = self._writable()
        if self._durable == file.size:
            return
        self._failed = True
        file.sync()
        self._failed = False
        self._durable = file.size

    def rollback(self) -> None:
        """Return once everything since the last sync is forgotten for good; on an error, call it again."""
        assert self._file is not None
        self._failed = True
        # Truncating may fail or not reach the disk: the new segment's header seals the old one all the same.
        with suppress(DiskError):
            self._file.truncate(self._durable)
        self._lengths[self.segment] = self._durable
        self._start()

    def rotate(self) -> int:
        """Return the number of a new segment, once it durably follows the current one, which is synced."""
        assert self._durable == self._writable().size
        self._start()
        return self.segment

    def read(self, position: Position) -> StoredBatch:
        """Return the batch that lies there, checked; any thread may call it."""
        path = segment_path(self._directory, position.segment)
        encoded = self._disk.read(path, position.offset, position.length)
        if not is_intact(encoded):
            raise CorruptionError(path, position.offset, "the checksum of a batch does not match")
        return StoredBatch(encoded)

    def trim(self, below_segment: int) -> None:
        """Return once no segment below this one is left; any thread may call it."""
        assert below_segment <= self.segment
        for number in [n for n in list(self._lengths) if n < below_segment]:
            self._remove(number)
            del self._lengths[number]

    def close(self) -> None:
        """Let the files go; what was not synced stays so."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _writable(self) -> AppendFile:
        assert self._file is not None, "the log is closed"
        assert not self._failed, "a failed log must be rolled back first"
        return self._file

    def _remove(self, number: int) -> None:
        self._disk.remove(segment_path(self._directory, number))

    def _start(self) -> None:
        """Go on in a new segment, which seals the current one at its durable length."""
        # From here on a header that seals the current segment may be on disk, so nothing more may be
        # appended to it, even if this fails.
        self._failed = True
        self._highest = number = self._highest + 1
        path = segment_path(self._directory, number)
        file = self._disk.open_append(path)
        try:
            file.write([SegmentHeader(number, self.segment, self._durable).encode()])
            file.sync()
            self._disk.sync_dir(self._directory)
        except DiskError:
            file.close()
            # One that stays behind is void, since the next attempt has a higher number.
            with suppress(DiskError):
                self._disk.remove(path)
            raise
        self.close()
        self._file = file
        self.segment = number
        self._durable = self._lengths[number] = file.size
        self._failed = False
