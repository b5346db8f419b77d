"""An object store that breaks on demand: refused, slow and late requests, and another writer that is faster.

objects = BreakableObjects(inner)
objects.break_at(2, ObjectFault.LATE, "write")  # the 2nd write from now
objects.break_always(ObjectFault.REFUSED)       # until objects.heal()
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import TypeVar

from headwater.objects.object_error import ObjectError, Problem
from headwater.objects.objects import ObjectInfo, Objects

T = TypeVar("T")

SLOW_S = 60
FOREIGN = b"another writer's"


class ObjectFault(Enum):
    """How a request breaks."""

    REFUSED = auto()
    """Nothing is done."""
    THROTTLED = auto()
    """Nothing is done, and the store asks for fewer requests."""
    SLOW = auto()
    """It waits until the store is healed, and is done then."""
    LATE = auto()
    """It is done, and reported as failed."""
    STALE = auto()
    """Another writer was there first: a conditional write finds its condition broken."""


@dataclass
class _Faults:
    """What breaks, shared by all prefixes of a store."""

    always: dict[str | None, ObjectFault] = field(default_factory=dict)
    at: list[tuple[int, ObjectFault, str | None]] = field(default_factory=list)
    counts: dict[str | None, int] = field(default_factory=dict)
    healed: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, operation: str) -> ObjectFault | None:
        """Count a request and return how it breaks."""
        with self.lock:
            for kind in (operation, None):
                self.counts[kind] = self.counts.get(kind, 0) + 1
            for number, fault, kind in self.at:
                if kind in (operation, None) and self.counts[kind] == number:
                    return fault
            return self.always.get(operation, self.always.get(None))


class BreakableObjects:
    """The objects of another store, behind faults."""

    def __init__(self, inner: Objects, faults: _Faults | None = None) -> None:
        self._inner = inner
        self._faults = faults or _Faults()

    def break_at(self, number: int, fault: ObjectFault, operation: str | None = None) -> None:
        """Break the request with this number, counted from now among all or those of one operation."""
        with self._faults.lock:
            number += self._faults.counts.get(operation, 0)
            self._faults.at.append((number, fault, operation))

    def break_always(self, fault: ObjectFault, operation: str | None = None) -> None:
        """Break every request, or those of one operation, until healed."""
        self._faults.healed.clear()
        self._faults.always[operation] = fault

    def heal(self) -> None:
        """Break nothing any more."""
        with self._faults.lock:
            self._faults.always.clear()
            self._faults.at.clear()
        self._faults.healed.set()

    @property
    def requests(self) -> int:
        """Return how many requests there were."""
        return self._faults.counts.get(None, 0)

    @property
    def address(self) -> str:
        return self._inner.address

    def below(self, prefix: str) -> BreakableObjects:
        return BreakableObjects(self._inner.below(prefix), self._faults)

    def get(self, key: str) -> bytes:
        return self._do("read", key, lambda: self._inner.get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._do("read", key, lambda: self._inner.get_range(key, start, length))

    def get_tail(self, key: str, length: int) -> tuple[bytes, int]:
        return self._do("read", key, lambda: self._inner.get_tail(key, length))

    def head(self, key: str) -> ObjectInfo:
        return self._do("read", key, lambda: self._inner.head(key))

    def put(self, key: str, data: bytes) -> str:
        return self._do("write", key, lambda: self._inner.put(key, data))

    def put_file(self, key: str, path: Path) -> None:
        self._do("write", key, lambda: self._inner.put_file(key, path))

    def put_if_absent(self, key: str, data: bytes) -> str:
        return self._do("write", key, lambda: self._inner.put_if_absent(key, data))

    def put_if_match(self, key: str, data: bytes, e_tag: str) -> str:
        return self._do("write", key, lambda: self._inner.put_if_match(key, data, e_tag))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        yield from self._do("list", prefix, lambda: list(self._inner.list(prefix)))

    def delete(self, key: str) -> None:
        self._do("remove", key, lambda: self._inner.delete(key))

    def sync(self, key: str) -> None:
        self._inner.sync(key)

    def copy(self, source: str, target: str) -> None:
        self._do("copy", source, lambda: self._inner.copy(source, target))

    def _do(self, operation: str, key: str, call: Callable[[], T]) -> T:
        fault = self._faults.next(operation)
        if fault is ObjectFault.REFUSED:
            raise ObjectError(f"{self.address}/{key}", operation, Problem.UNREACHABLE)
        if fault is ObjectFault.THROTTLED:
            raise ObjectError(f"{self.address}/{key}", operation, Problem.THROTTLED, "SlowDown")
        if fault is ObjectFault.SLOW:
            assert self._faults.healed.wait(SLOW_S), "nobody healed the store"
        if fault is ObjectFault.STALE and operation == "write":
            self._inner.put(key, FOREIGN)
        done = call()
        if fault is ObjectFault.LATE:
            raise ObjectError(f"{self.address}/{key}", operation, Problem.UNREACHABLE)
        return done


class LaxObjects(BreakableObjects):
    """Objects without conditional writes: every writer wins."""

    def put_if_absent(self, key: str, data: bytes) -> str:
        return self.put(key, data)
