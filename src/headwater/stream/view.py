"""Finds and reads the messages of a stream, in its head (the log) or in its body (the table)."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import partial
from itertools import count
from threading import Lock
from typing import TypeVar

from headwater.errors import DiskError, Error
from headwater.model.run import Run
from headwater.stream.head import Head, HeadEntry
from headwater.table.datafile import DataFile
from headwater.table.group_reader import Groups
from headwater.table.table import ConflictError, Table

_T = TypeVar("_T")
_MOVED_RETRIES = 5
_ids = count()


class NotResidentError(Error):
    """The event loop needs a run that is in a bucket and not in memory: a thread must fetch it first."""

    def __init__(self, seq: int) -> None:
        super().__init__(f"sequence {seq}, on which this depends, could not be read from its bucket")
        self.seq = seq


class RunCache:
    """Decoded runs of all streams; evicts the least recently used. Safe on any thread."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._runs: OrderedDict[tuple[object, ...], Run] = OrderedDict()
        """The last used run last."""
        self._lock = Lock()
        self.nbytes = 0
        self.hits = 0
        """How often a run was found; like `misses`, changed under the lock."""
        self.misses = 0

    def get(self, key: tuple[object, ...]) -> Run | None:
        """Return a cached run, None if it is not cached."""
        with self._lock:
            run = self._runs.get(key)
            if run is None:
                self.misses += 1
            else:
                self.hits += 1
                self._runs.move_to_end(key)
            return run

    def put(self, key: tuple[object, ...], run: Run) -> None:
        """Cache a run and evict the least recently used ones beyond the limit."""
        with self._lock:
            if key in self._runs:
                return
            self._runs[key] = run
            self.nbytes += run.nbytes
            while self.nbytes > self._limit and len(self._runs) > 1:
                self.nbytes -= self._runs.popitem(last=False)[1].nbytes


class View:
    """Finds the run that holds a sequence, in the head or in the body.

    Readers prefer the head: a fold commits to the table first and releases the head afterwards, so a
    sequence is always in one of them. A reader that meets a batch just trimmed looks again.
    """

    def __init__(self, head: Head, table: Table, cache: RunCache, executor: Executor) -> None:
        self._id = next(_ids)
        """Distinguishes the view's runs in the shared cache."""
        self.head = head
        self.table = table
        self._cache = cache
        self._executor = executor
        self._held: Run | None = None
        """The run that `holding` keeps in memory."""

    async def run_at(self, seq: int) -> Run | None:
        """Return the first run that has a row at or after this sequence."""
        run = self.resident_run_at(seq)
        return run if run is not None else await self._on_thread(self.read_run_at, seq)

    def resident_run_at(self, seq: int) -> Run | None:
        """Return the same as `run_at` if that run is in memory, else None."""
        place = self._place_of(seq)
        if isinstance(place, HeadEntry):
            return place.run or self._cache.get((self._id, place.position))
        groups = self.table.known_groups(place) if place is not None else None
        if place is None or groups is None:
            return None
        return self._cache.get((self._id, place.path, _group_at(groups, seq)))

    def read_run_at(self, seq: int) -> Run | None:
        """Return the same as `run_at`, blocking; not for the event loop."""
        return self._retrying(self._read_run_at, seq)

    def run_now(self, seq: int) -> Run | None:
        """Return the same as `run_at` on the event loop; raise `NotResidentError` if that asks a bucket."""
        held = self._held
        if held is not None and held.seqs[0] <= seq <= held.seqs[-1]:
            return held
        return self.resident_run_at(seq) or self._retrying(self._read_run_now, seq)

    def _read_run_now(self, seq: int) -> Run | None:
        if self.table.is_remote and isinstance(self._place_of(seq), DataFile):
            raise NotResidentError(seq)
        return self._read_run_at(seq)

    @contextmanager
    def holding(self, run: Run) -> Iterator[None]:
        """Run a span, in which nothing is awaited, with a run in memory, however small the cache is."""
        self._held = run
        try:
            yield
        finally:
            self._held = None

    def _read_run_at(self, seq: int) -> Run | None:
        place = self._place_of(seq)
        if isinstance(place, HeadEntry):
            return self._load_entry(place)
        return None if place is None else self._load_group(place, seq)

    def _place_of(self, seq: int) -> HeadEntry | DataFile | None:
        """Return what holds this sequence, or the first one behind it that is stored.

        Looks at the head once, and before the table: what a fold releases afterwards is in the table by then.
        A second look would mistake the entries behind the released ones for the next ones.
        """
        entry = self.head.entry_at(seq)
        if entry is not None and entry.first_seq <= seq:
            return entry
        file = self._file_at(seq)
        if file is None or entry is None:
            return entry if file is None else file
        return file if file.first_seq < entry.first_seq else entry

    def _retrying(self, read: Callable[[int], _T], wanted: int) -> _T:
        """Return what is read. Look again if a fold or a sweep moved it between the look and the read."""
        for _ in range(_MOVED_RETRIES):
            try:
                return read(wanted)
            except (DiskError, ConflictError):
                continue
        return read(wanted)

    def reach(self, seq: int) -> int:
        """Return the last sequence of the batch or file that holds this sequence, or would."""
        place = self._place_of(seq)
        return seq if place is None else place.last_seq

    def _file_at(self, seq: int) -> DataFile | None:
        files = self.table.files
        index = bisect_left(files, seq, key=lambda file: file.last_seq)
        return files[index] if index < len(files) else None

    def _load_entry(self, entry: HeadEntry) -> Run:
        if entry.run is not None:
            return entry.run
        return self._cached((self._id, entry.position), lambda: self.head.load(entry))

    def _load_group(self, file: DataFile, seq: int) -> Run:
        index = _group_at(self.table.groups(file), seq)
        return self._cached((self._id, file.path, index), lambda: self.table.read_group(file, index))

    def _cached(self, key: tuple[object, ...], load: Callable[[], Run]) -> Run:
        run = self._cache.get(key)
        if run is None:
            run = load()
            self._cache.put(key, run)
        return run

    async def seq_at(self, ts: int, start_seq: int = 0) -> int | None:
        """Return the first stored sequence from `start_seq` on whose time is not before `ts`, alive or not.

        Times ascend unless a clock was set back or a mirror's origin has other times; then none is missed.
        """
        return await self._on_thread(self._retrying, partial(self._read_seq_at, ts), start_seq)

    def _read_seq_at(self, ts: int, start_seq: int) -> int | None:
        # The head first: what a fold moves meanwhile is in the table by then.
        found = self._seq_in_head(ts, start_seq)
        for file in self.table.files:
            if file.last_seq < start_seq or (found is not None and file.first_seq > found):
                continue
            # The last time of a file is rounded up, so the file may have no such message.
            if file.last_ts >= ts and (older := self._seq_in_file(file, ts, start_seq)) is not None:
                return older if found is None else min(older, found)
        return found

    def _seq_in_head(self, ts: int, start_seq: int) -> int | None:
        while (entry := self.head.entry_since(ts, start_seq)) is not None:
            if (found := _seq_since(self._load_entry(entry), ts, start_seq)) is not None:
                return found
            start_seq = entry.last_seq + 1
        return None

    def _seq_in_file(self, file: DataFile, ts: int, start_seq: int) -> int | None:
        latest = self.table.latest_times(file)
        for (first_seq, last_seq), last_ts in zip(self.table.groups(file), latest, strict=True):
            if last_seq < start_seq or last_ts < ts:
                continue
            if (found := _seq_since(self._load_group(file, first_seq), ts, start_seq)) is not None:
                return found
        return None

    async def _on_thread(self, call: Callable[..., _T], *args: object) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call, *args)


def _group_at(groups: Groups, seq: int) -> int:
    """Return the index of the first row group that reaches a sequence, of the last if none does."""
    return min(bisect_left(groups, seq, key=lambda bounds: bounds[1]), len(groups) - 1)


def _seq_since(run: Run, ts: int, start_seq: int) -> int | None:
    """Return the first sequence of a run, not below `start_seq`, with a time not before `ts`."""
    late = run.ts >= ts
    if start_seq > run.seqs[0]:
        late &= run.seqs >= start_seq
    row = int(late.argmax())
    return int(run.seqs[row]) if late[row] else None
