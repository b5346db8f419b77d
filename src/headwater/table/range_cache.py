"""Ranges of objects kept on the local disk, the least recently used removed first.

What is in it was read from a bucket and can be read there again. So nothing is synced, a file that cannot be
written is left out, and every reader verifies what it reads.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from pathlib import Path

from headwater.disk import DIRECTORY_MODE

_TEMPORARY = ".tmp"


class RangeCache:
    """Files of a bounded total size, named after what they hold; any thread may call."""

    def __init__(self, directory: Path, max_bytes: int) -> None:
        """Open the cache with what an earlier run has left."""
        self._directory = directory
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._sizes: OrderedDict[str, int] = OrderedDict()
        """The size of each file, the least recently used first."""
        self._total = 0
        """The size of everything in the cache."""
        directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        self._find()
        self._shrink()

    @property
    def nbytes(self) -> int:
        """Return how many bytes are kept."""
        return self._total

    def get(self, key: str) -> bytes | None:
        """Return the data of the key, None if it was evicted; it may be damaged."""
        name = _name(key)
        with self._lock:
            if name not in self._sizes:
                return None
            self._sizes.move_to_end(name)
        try:
            return (self._directory / name).read_bytes()
        except OSError:
            self.forget(key)
            return None

    def has(self, key: str) -> bool:
        """Return whether something was put under the key and is still there."""
        with self._lock:
            return _name(key) in self._sizes

    def takes(self, length: int) -> bool:
        """Return whether twice this many bytes can fit into the cache."""
        return 2 * length <= self._max_bytes

    def put(self, key: str, data: bytes) -> None:
        """Store data, unless it does not fit."""
        if len(data) > self._max_bytes:
            return
        name = _name(key)
        temporary = self._directory / f"{name}.{threading.get_ident()}{_TEMPORARY}"
        try:
            temporary.write_bytes(data)
            os.replace(temporary, self._directory / name)
        except OSError:
            temporary.unlink(missing_ok=True)
            return
        with self._lock:
            self._total += len(data) - self._sizes.pop(name, 0)
            self._sizes[name] = len(data)
        self._shrink()

    def forget(self, key: str) -> None:
        """Remove what was put under the key."""
        self._remove(_name(key))

    def _find(self) -> None:
        found = [path for path in self._directory.iterdir() if path.is_file()]
        for path in sorted(found, key=lambda path: path.stat().st_mtime_ns):
            if path.suffix == _TEMPORARY:
                path.unlink(missing_ok=True)
                continue
            self._sizes[path.name] = path.stat().st_size
            self._total += self._sizes[path.name]

    def _shrink(self) -> None:
        while True:
            with self._lock:
                if self._total <= self._max_bytes or not self._sizes:
                    return
                oldest = next(iter(self._sizes))
            self._remove(oldest)

    def _remove(self, name: str) -> None:
        with self._lock:
            self._total -= self._sizes.pop(name, 0)
        try:
            (self._directory / name).unlink(missing_ok=True)
        except OSError:
            pass  # it is counted no more; the next start finds it


def _name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:40]
