"""Ships the changes of a store's head to its journal: in order, in groups, from one thread.

1. A change is queued, in the order in which it was made on the disk.
2. The thread appends what is queued as one record, of up to about 1 MiB.
3. Callers that wait for the change to be durable are woken.

A change stays queued until the journal has it, also if its caller gave up waiting. So the journal always
contains a state that the disk had at some time. While there is nothing to ship, an empty record is a
heartbeat.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from headwater.errors import DiskError, Error, FencedError
from headwater.journal.appender import Appender, JournalFencedError
from headwater.journal.contents import Contents
from headwater.journal.head_journal import HeadJournal, JournalError, JournalPeer
from headwater.journal.record import PIECE_BYTES, ChangePiece, RecordKind

logger = logging.getLogger(__name__)

BEAT_S = 1.0
"""How often an engine without changes appends a heartbeat."""
LEASE_S = 3.0
"""How long after the start of an append no other engine takes over: less than `takeover.SILENCE_S`."""
PATIENCE_S = 20.0
"""How long a sync waits for the journal; the election of a new leader takes up to 10 s."""
RECORD_BYTES = PIECE_BYTES + (128 << 10)
"""A record is closed when its pieces have this much data."""
TRIM_RECORDS, TRIM_BYTES = 256, 16 << 20
"""Trim when this many records, or bytes of them, are no longer needed."""
SLACK_BYTES, SLACK_RECORDS = 32 << 20, 4000
"""How much more than the files themselves the journal may hold before old files are written again."""
REWRITES = 64
"""How many files are written again at a time."""
MOST_PIECES = 4096
LOOK_S = 30.0
"""How often it is checked that the oldest record that is needed is still there."""
PEERS_S = 2.0
"""How often the journal is asked which servers keep its copies."""
PIECE_OVERHEAD = 48
LAST_S = 5.0
"""How long an engine that ends waits for its journal."""


class Shipper:
    """The queue of changes and the thread that empties it; any thread may queue and wait."""

    def __init__(
        self,
        journal: HeadJournal,
        appender: Appender,
        contents: Contents,
        records: dict[int, int],
        keep: Collection[int],
        on_fenced: Callable[[str], FencedError],
    ) -> None:
        """`records` are the sizes of the records by their positions; those in `keep` are never removed."""
        self._journal = journal
        self._appender = appender
        self._contents = contents
        self._records = dict(sorted(records.items()))
        """The size of each record, by position, oldest first."""
        self._bytes = sum(records.values())
        """The size of all records."""
        self._dead = self._dead_bytes = 0
        """Records that may be trimmed."""
        self._floor = 0
        """The floor that the last record states: only below it may anything be removed."""
        self._rewritten = 0
        """How many pieces were queued when old files were last written again."""
        self._keep = set(keep)
        """Positions of records that are never removed."""
        self._on_fenced = on_fenced
        """Called with the reason once another engine has taken over; returns the error."""
        self._queue: deque[ChangePiece] = deque()
        """Changes that are not shipped, in order."""
        self._changed = threading.Condition()
        """Guards all of this; notified when something was queued or shipped."""
        self._queued = self._shipped = 0
        """How many pieces were queued and shipped since the start."""
        self._queued_bytes = self._shipped_bytes = 0
        """The sizes of these pieces."""
        self._error: Error | None = None
        """Why the last attempt failed; None while all is well."""
        self._fenced: FencedError | None = None
        """Set once another engine has taken over; nothing is shipped any more."""
        self._closing = False
        self._leased_until = 0.0
        """By the monotonic clock, in seconds."""
        self.peers: list[JournalPeer] = []
        """The servers with copies of the journal, as they were a few seconds ago."""
        self._asked_at = 0.0
        """When the servers were last asked for their copies, by the monotonic clock."""
        self._looked_at = _now_s()
        """When the record at the floor was last looked for."""
        self._thread: threading.Thread | None = None
        """Ships; None before the start."""

    @property
    def is_leased(self) -> bool:
        """Return whether no other engine can have taken over yet, because it would still wait for silence."""
        return _now_s() < self._leased_until

    @property
    def unshipped_bytes(self) -> int:
        """Return the size of the changes that the journal does not have yet."""
        with self._changed:
            return self._queued_bytes - self._shipped_bytes

    @property
    def journal_bytes(self) -> int:
        """Return the size of the records that the journal keeps."""
        return self._bytes - self._dead_bytes

    @property
    def is_failing(self) -> bool:
        """Return whether the last append failed."""
        return self._error is not None

    def start(self, rewrite: Callable[[str], bool]) -> None:
        """Ship from now on; `rewrite` queues the whole content of a file, if the file still exists."""
        self._thread = threading.Thread(
            target=self._run, args=(rewrite,), name="journal shipper", daemon=True
        )
        self._thread.start()

    def queue(self, pieces: Sequence[ChangePiece]) -> None:
        """Queue the pieces of one change, behind all that are queued."""
        with self._changed:
            self._queue.extend(pieces)
            self._queued += len(pieces)
            self._queued_bytes += sum(map(_size, pieces))
            self._changed.notify_all()

    def flush(self, patience_s: float | None = None) -> None:
        """Return once everything that was queued is durable; raise if the journal does not take it."""
        until = time.monotonic() + (PATIENCE_S if patience_s is None else patience_s)
        with self._changed:
            wanted = self._queued
            while self._shipped < wanted:
                if self._fenced is not None:
                    raise self._fenced
                left_s = until - time.monotonic()
                if left_s <= 0 or self._thread is None or not self._thread.is_alive():
                    raise self._refusal()
                self._changed.wait(left_s)
            if self._fenced is not None:
                raise self._fenced

    def close(self) -> None:
        """Ship what is queued, if the journal takes it soon, and leave a record that this engine ended."""
        with suppress(Error):
            self.flush(LAST_S)
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(2 * LAST_S)

    def _refusal(self) -> DiskError:
        if isinstance(self._error, DiskError):
            return self._error
        return JournalError(self._journal.address, "append to", "it does not answer")

    def _run(self, rewrite: Callable[[str], bool]) -> None:
        try:
            while (pieces := self._take()) is not None:
                self._ship(RecordKind.CHANGES, pieces)
                self._tidy(rewrite)
                self._look_at_peers()
                self._look_at_floor(rewrite)
            if not self._queue:
                self._ship(RecordKind.CLOSED, ())
        except JournalFencedError as error:
            self._lose(error.owner)
        except JournalError as error:
            logger.warning("cannot write the closing record to the journal: %s", error)
        except Exception as error:
            logger.exception("the journal shipper failed")
            self._lose(f"the journal shipper failed: {error!r}")

    def _lose(self, reason: str) -> None:
        self._leased_until = 0.0
        fenced = self._on_fenced(reason)
        with self._changed:
            self._fenced = fenced
            self._changed.notify_all()

    def _take(self) -> tuple[ChangePiece, ...] | None:
        """Return the next pieces, none after a while without changes, None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing, BEAT_S if self.is_leased else 0)
            if self._closing:
                return None
            taken: list[ChangePiece] = []
            size = 0
            while self._queue and len(taken) < MOST_PIECES:
                size += _size(self._queue[0])
                if taken and size > RECORD_BYTES:
                    break
                taken.append(self._queue.popleft())
            return tuple(taken)

    def _ship(self, kind: RecordKind, pieces: tuple[ChangePiece, ...]) -> None:
        began, position = _now_s(), self._appender.last + 1
        floor = min(self._contents.floor(position), position)
        size = self._appender.append(kind, pieces, floor, self._is_over)
        if self._error is not None:
            logger.info("the journal %s works again", self._journal.address)
        # After a last record another engine takes over at once.
        self._leased_until = began + LEASE_S if kind != RecordKind.CLOSED else 0.0
        self._floor = floor
        self._records[position] = size
        self._bytes += size
        self._contents.apply(position, pieces)
        with self._changed:
            self._error = None
            self._shipped += len(pieces)
            self._shipped_bytes += sum(map(_size, pieces))
            self._changed.notify_all()

    def _is_over(self, error: DiskError) -> bool:
        """Return whether to give up appending: only at the end. Until then the outcome must be found out."""
        if self._error is None:
            logger.error("%s; nothing is acknowledged until it works again", error)
        self._error = error
        if isinstance(error, JournalError) and error.is_answer:
            # It may be full, and records that are not needed any more may be why.
            self._count_dead()
            if self._dead:
                self._trim()
        return self._closing

    def _tidy(self, rewrite: Callable[[str], bool]) -> None:
        """Remove records that are not needed, and write old files again if they keep too many of those."""
        self._count_dead()
        if self._dead >= TRIM_RECORDS or self._dead_bytes >= TRIM_BYTES:
            self._trim()
        is_large = self._bytes > 2 * self._contents.live_bytes + SLACK_BYTES
        is_long = len(self._records) > 2 * self._contents.live_records + SLACK_RECORDS
        if (is_large or is_long) and self._shipped >= self._rewritten:
            for path in self._contents.oldest(REWRITES):
                rewrite(path)
            self._rewritten = self._queued

    def _count_dead(self) -> None:
        while self._records and (first := next(iter(self._records))) < self._floor:
            self._dead_bytes += self._records.pop(first)
            self._dead += 1

    def _look_at_floor(self, rewrite: Callable[[str], bool]) -> None:
        """Write all files again if someone removed records that are needed: the files have everything."""
        if _now_s() - self._looked_at < LOOK_S or self._shipped < self._rewritten:
            return
        self._looked_at = _now_s()
        with suppress(DiskError):
            if self._journal.get(self._floor) is None:
                logger.error(
                    "record %d of the journal %s was removed by someone; all files are written again",
                    self._floor,
                    self._journal.address,
                )
                for path in self._contents.names():
                    rewrite(path)
                self._rewritten = self._queued

    def _look_at_peers(self) -> None:
        if time.monotonic() - self._asked_at >= PEERS_S:
            with suppress(DiskError):
                self.peers = self._journal.peers()
            self._asked_at = time.monotonic()

    def _trim(self) -> None:
        try:
            self._journal.trim(self._floor, self._keep)
        except DiskError as error:
            logger.warning("%s; trying again later", error)
            return
        self._bytes -= self._dead_bytes
        self._dead = self._dead_bytes = 0


def _now_s() -> float:
    """Return a time that also passes while the machine is suspended, which no lease outlives."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def _size(piece: ChangePiece) -> int:
    return len(piece.data) + len(piece.path) + PIECE_OVERHEAD
