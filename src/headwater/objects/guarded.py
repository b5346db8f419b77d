"""Objects of a store that may become unreachable: requests then fail at once, except one now and then."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from headwater.backoff import Backoff
from headwater.objects.object_error import ObjectError, Problem
from headwater.objects.objects import ObjectInfo, Objects

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 15.0

_T = TypeVar("_T")


class Outage:
    """Whether an object store is unreachable, shared by all that use it."""

    def __init__(self, address: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._address = address
        self._clock = clock
        """Returns seconds of a monotonic clock."""
        self._lock = threading.Lock()
        self._error: ObjectError | None = None
        """Why the bucket cannot be reached; None while it can."""
        self._since_s = 0.0
        """When the outage began, by the monotonic clock."""
        self._retry_at_s = 0.0
        """Before this, requests fail at once."""
        self._waits = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        self._pause_s = FIRST_PAUSE_S
        """How long to wait between two requests that try the store."""

    @property
    def error(self) -> ObjectError | None:
        """Return why the store is unreachable, None if it is not."""
        return self._error

    def check(self) -> None:
        """Raise while the store is unreachable, except for one caller now and then, which tries it."""
        with self._lock:
            if self._error is None:
                return
            if self._clock() >= self._retry_at_s:
                self._retry_at_s = self._clock() + self._pause_s
                return
            error = self._error
        raise ObjectError(error.address, error.operation, error.problem, error.detail)

    def failed(self, error: ObjectError) -> None:
        """Record that a request found the store unreachable."""
        with self._lock:
            is_new = self._error is None
            if is_new:
                self._since_s = self._clock()
                self._waits.reset()
            self._pause_s = self._waits.next_s()
            self._error = error
            self._retry_at_s = self._clock() + self._pause_s
        if is_new:
            logger.error("%s; messages stay in the logs of their streams until it works again", error)

    def ended(self) -> None:
        """Record that a request was answered."""
        with self._lock:
            if self._error is None:
                return
            self._error = None
            away_s = self._clock() - self._since_s
        logger.info("%s works again after %.0f s", self._address, away_s)


class ObjectRequestCounts:
    """How many requests an object store got, and how many of them failed; threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.requests = 0
        self.failures = 0
        """Without the answer that there is no such object, which is often expected."""

    def add(self, *, is_failure: bool) -> None:
        """Count one request."""
        with self._lock:
            self.requests += 1
            self.failures += is_failure


class GuardedObjects:
    """The objects of another client, behind what is known about its store."""

    def __init__(
        self, inner: Objects, outage: Outage | None = None, counts: ObjectRequestCounts | None = None
    ) -> None:
        self._inner = inner
        self.outage = outage or Outage(inner.address)
        self.counts = counts or ObjectRequestCounts()

    @property
    def address(self) -> str:
        return self._inner.address

    def below(self, prefix: str) -> GuardedObjects:
        return GuardedObjects(self._inner.below(prefix), self.outage, self.counts)

    def require_ready(self, key: str) -> None:
        """Raise if the store was unreachable and still is, as a request for this key shows."""
        if self.outage.error is not None:
            try:
                self.head(key)
            except ObjectError as error:
                if error.is_outage:
                    raise

    def get(self, key: str) -> bytes:
        return self._ask(lambda: self._inner.get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._ask(lambda: self._inner.get_range(key, start, length))

    def get_tail(self, key: str, length: int) -> tuple[bytes, int]:
        return self._ask(lambda: self._inner.get_tail(key, length))

    def head(self, key: str) -> ObjectInfo:
        return self._ask(lambda: self._inner.head(key))

    def put(self, key: str, data: bytes) -> str:
        return self._ask(lambda: self._inner.put(key, data))

    def put_file(self, key: str, path: Path) -> None:
        self._ask(lambda: self._inner.put_file(key, path))

    def put_if_absent(self, key: str, data: bytes) -> str:
        return self._ask(lambda: self._inner.put_if_absent(key, data))

    def put_if_match(self, key: str, data: bytes, e_tag: str) -> str:
        return self._ask(lambda: self._inner.put_if_match(key, data, e_tag))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return iter(self._ask(lambda: [*self._inner.list(prefix)]))

    def delete(self, key: str) -> None:
        self._ask(lambda: self._inner.delete(key))

    def copy(self, source: str, target: str) -> None:
        self._ask(lambda: self._inner.copy(source, target))

    def sync(self, key: str) -> None:
        self._inner.sync(key)

    def _ask(self, request: Callable[[], _T]) -> _T:
        self.outage.check()
        try:
            answer = request()
        except ObjectError as error:
            is_failure = error.is_outage and error.problem is not Problem.UNSUPPORTED
            self.counts.add(is_failure=is_failure)
            if is_failure:
                self.outage.failed(error)
            else:
                self.outage.ended()
            raise
        self.counts.add(is_failure=False)
        self.outage.ended()
        return answer
