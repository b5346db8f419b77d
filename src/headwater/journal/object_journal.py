"""A journal in a bucket: one object for each record, created only if there is none at its position."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from headwater.errors import CorruptionError
from headwater.journal.head_journal import JournalError, JournalPeer, PositionTakenError
from headwater.journal.record import RecordKind, decode
from headwater.objects import preflight
from headwater.objects.object_error import ObjectError, Problem
from headwater.objects.objects import Objects

FOLDER = "records"
COPIES = 1
"""Object stores keep more copies, but do not report how many: `max_replicas` declares it."""
READERS = 16
_AWAY = frozenset({Problem.UNREACHABLE, Problem.THROTTLED, Problem.FAILED})
"""Problems that may pass, so that opening is tried again."""
WALKED = 64
"""How many records are looked for one by one behind a known one."""
EXAMINED = 64
"""How many records of earlier engines a trim reads at most to see what they are."""


class ObjectJournal:
    """The objects below one prefix, named after their positions."""

    def __init__(self, objects: Objects, *, tested: bool = True) -> None:
        """Open the prefix; the bucket is tested before it is written to: not all have conditional writes."""
        self._objects = objects
        try:
            if tested:
                preflight.check(objects)
        except ObjectError as error:
            if error.problem in _AWAY:
                raise self._error("open", error) from error
            raise
        self._threads = ThreadPoolExecutor(READERS, "journal")
        self._read_from = 1
        """Records below this position were not read here: they may be those of take-overs."""
        self._takeovers: set[int] = set()
        """Those that were found to be."""

    @property
    def address(self) -> str:
        return self._objects.address

    @property
    def copies(self) -> int:
        return COPIES

    def peers(self) -> list[JournalPeer]:
        return []

    def append(self, position: int, record: bytes) -> None:
        try:
            self._objects.put_if_absent(_key(position), record)
        except ObjectError as error:
            if error.problem in (Problem.EXISTS, Problem.CHANGED):
                raise PositionTakenError(position) from error
            raise self._error("append to", error) from error

    def get(self, position: int) -> bytes | None:
        try:
            return self._objects.get(_key(position))
        except ObjectError as error:
            if error.problem is Problem.MISSING:
                return None
            raise self._error("read", error) from error

    def last(self, known: int = 0) -> int:
        found = known or self._listed()
        # A listing may lack the newest objects.
        for _ in range(WALKED):
            if not self._exists(found + 1):
                return found
            found += 1
        # The owner may append as fast as we look. Who takes this for the last position fails to append.
        return max(found, self._listed())

    def _listed(self) -> int:
        try:
            return max(self._positions(), default=0)
        except ObjectError as error:
            raise self._error("list", error) from error

    def read(self, first: int, last: int) -> Iterator[bytes]:
        self._read_from = first
        positions = iter(range(first, last + 1))
        while chunk := list(islice(positions, 4 * READERS)):
            for position, record in zip(chunk, self._threads.map(self.get, chunk), strict=True):
                if record is None:
                    raise JournalError(self.address, "read", f"the record at position {position} is missing")
                yield record

    def trim(self, below: int, keep: Collection[int]) -> None:
        try:
            found = [n for n in self._positions() if n < below and n not in keep]
            gone = [n for n in found if n >= self._read_from]
            gone += self._leftovers([n for n in found if n < self._read_from])
            list(self._threads.map(lambda position: self._objects.delete(_key(position)), gone))
        except ObjectError as error:
            raise self._error("trim", error) from error

    def _leftovers(self, found: list[int]) -> list[int]:
        """Return which of these an earlier engine left by accident; the others are records of take-overs."""
        unknown = [position for position in found if position not in self._takeovers][-EXAMINED:]
        records = dict(zip(unknown, self._threads.map(self.get, unknown), strict=True))
        self._takeovers |= {
            position for position, record in records.items() if self._is_kept(position, record)
        }
        return [position for position in unknown if position not in self._takeovers]

    def _is_kept(self, position: int, record: bytes | None) -> bool:
        """Return whether this is a record of a take-over; one that cannot be read may be."""
        if record is None:
            return False
        try:
            return decode(record, self.address, position).kind == RecordKind.TAKEOVER
        except CorruptionError:
            # Without it, an engine that was fenced by it could append there, and acknowledge what is lost.
            return True

    def close(self) -> None:
        self._threads.shutdown()

    def _positions(self) -> list[int]:
        names = [info.key.rpartition("/")[2] for info in self._objects.list(FOLDER)]
        return [int(name) for name in names if name.isascii() and name.isdigit()]

    def _exists(self, position: int) -> bool:
        try:
            self._objects.head(_key(position))
        except ObjectError as error:
            if error.problem is Problem.MISSING:
                return False
            raise self._error("read", error) from error
        return True

    def _error(self, operation: str, error: ObjectError) -> JournalError:
        reason = f"{error.problem.value} ({error.detail})" if error.detail else error.problem.value
        return JournalError(self.address, operation, reason)


def _key(position: int) -> str:
    return f"{FOLDER}/{position:020d}"
