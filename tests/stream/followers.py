"""A listener of a stream for tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from headwater.model.adopted import Adopted
from headwater.model.run import Run
from headwater.stream.head import HeadEntry
from headwater.stream.retention.removal import Removal
from headwater.stream.stream import Stream


class Followed:
    """A listener that records what is reported to it, and wants the given subjects."""

    def __init__(self, stream: Stream, *wanted: bytes) -> None:
        self.stream = stream
        self.wanted = set(wanted)
        self.needed: set[int] = set()
        self.stored: list[tuple[int, int]] = []
        self.removed: list[int] = []
        self.rebuilt = 0
        stream.events.listen(self)

    def on_stored(self, entries: Sequence[HeadEntry]) -> None:
        for entry in entries:
            assert entry.last_seq <= self.stream.reading.durable_seq
            self.stored.append((entry.first_seq, entry.last_seq))

    def on_adopted(self, adopted: Adopted) -> None:
        self.stored.append((adopted.first_seq, adopted.last_seq))

    def on_removed(self, removal: Removal) -> None:
        self.removed += list(removal.seqs)

    def on_rebuilt(self) -> None:
        self.rebuilt += 1

    def wants(self, subject: bytes) -> bool:
        return subject in self.wanted

    def released(self, run: Run, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        return np.array([row for row in rows.tolist() if int(run.seqs[row]) not in self.needed], np.intp)

    def is_done_with(self, first_seq: int, last_seq: int) -> bool:
        return False

    def dump(self) -> dict[str, list[bytes]]:
        return {"C": [b"state of C"]}
