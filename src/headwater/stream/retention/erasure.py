"""When removed messages leave the files of a stream's table: on a budget, or by age where that is asked for.

Readers miss a removed message at once. Its bytes stay in a file until that is written again, which costs the
live bytes in it. The budget bounds that cost by the bytes that were removed; an age does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headwater.model.stream import StreamConfig
from headwater.model.times import SECOND, parse_duration
from headwater.table.datafile import DataFile

BUDGET = 2.0
"""The most live bytes rewritten per byte removed, in the long run."""
METADATA_KEY = "headwater.erase_interval"
"""In a stream's metadata: a duration such as 30s, instead of the setting of the engine."""


def interval_ns(config: StreamConfig, setting_s: float | None) -> float | None:
    """Return how old a removed message may grow in a file; None where no age is asked for."""
    asked = parse_duration(config.metadata[METADATA_KEY]) if METADATA_KEY in config.metadata else None
    if asked is not None and asked >= 0:
        return asked
    return None if setting_s is None else setting_s * SECOND


class ErasureBudget:
    """The live bytes that may be written again to erase dead ones."""

    def __init__(self) -> None:
        self.bytes = 0.0
        """How many live bytes may be rewritten now."""
        self._seen: int | None = None
        """Up to where the bytes removed from the stream were counted."""

    def earn(self, removed_bytes: int, files: Iterable[DataFile], dead: Mapping[str, int]) -> None:
        """Record how many bytes were removed since the ledger was built.

        What was removed before the first call is known only by the rows that are dead.
        """
        if self._seen is None:
            self.bytes = sum(file.size_bytes * dead.get(file.path, 0) / file.rows for file in files)
            self._seen = removed_bytes
        # After a failed write the ledger is rebuilt and counts from 0.
        self.bytes += BUDGET * max(removed_bytes - (self._seen if self._seen <= removed_bytes else 0), 0)
        self._seen = removed_bytes

    def spend(self, size_bytes: float) -> None:
        """Record what was rewritten."""
        self.bytes = max(self.bytes - size_bytes, 0.0)


class DeadAges:
    """How long files have held dead rows; in memory, so that a restart begins again."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        """When removed messages were first seen in a file, by its path."""

    def __bool__(self) -> bool:
        return bool(self._since)

    def overdue(self, dead: Mapping[str, int], limit_ns: float | None, now_ns: int) -> set[str]:
        """Return the files whose removed messages have waited long enough to be erased, at whatever cost."""
        self._since = {path: self._since.get(path, now_ns) for path in dead}
        if limit_ns is None:
            return set()
        return {path for path, since in self._since.items() if now_ns - since >= limit_ns}
