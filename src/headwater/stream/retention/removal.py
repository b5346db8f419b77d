"""What one change takes out of a stream, with all that the ledger must subtract for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from headwater.model.run import Run


@dataclass(slots=True)
class Removal:
    """Removed sequences, and their counts and sizes.

    A removal carries its own sums because replay must never read the table: the rows may be erased by then.
    """

    seqs: BitMap64 = field(default_factory=BitMap64)
    size: int = 0
    subjects: Counter[bytes] = field(default_factory=Counter)
    everything: bool = False
    """Whether all that was there before this change goes, whatever else is listed."""

    def __bool__(self) -> bool:
        return self.everything or bool(self.seqs)

    def take(self, run: Run, rows: npt.NDArray[np.intp], overhead: Overhead) -> None:
        """Add these rows of a run, which must be alive."""
        if not len(rows):
            return
        seqs = run.seqs[rows]
        first, last = int(seqs[0]), int(seqs[-1])
        if last - first + 1 == len(seqs):
            self.seqs.add_range(first, last + 1)
        else:
            self.seqs.update(seqs.tolist())
        self.size += overhead.of_rows(run, rows)
        subjects = run.subjects
        self.subjects.update([subjects[row] for row in rows.tolist()])

    def take_known(self, seq: int, subject: bytes, size: int) -> None:
        """Add one message whose stored size is known."""
        self.seqs.add(seq)
        self.size += size
        self.subjects[subject] += 1

    def merge(self, other: Removal) -> None:
        """Add what another removal takes out."""
        self.seqs |= other.seqs
        self.size += other.size
        self.subjects.update(other.subjects)
        self.everything = self.everything or other.everything


@dataclass(frozen=True, slots=True)
class Overhead:
    """The bytes that nats-server counts for a stored message beyond its subject, headers and data."""

    per_message: int
    per_headers: int

    def of(self, subject: bytes, headers: bytes, data: bytes) -> int:
        """Return the size that one message counts for."""
        plain = self.per_message + len(subject) + len(headers) + len(data)
        return plain + self.per_headers if headers else plain

    def of_rows(self, run: Run, rows: npt.NDArray[np.intp]) -> int:
        """Return the size that these rows of a run count for."""
        return int(self.sizes(run)[rows].sum())

    def sizes(self, run: Run) -> npt.NDArray[np.int64]:
        """Return the size that each row of a run counts for."""
        sizes = run.sizes + self.per_message
        if self.per_headers:
            sizes = sizes + self.per_headers * run.with_headers
        return sizes


FILE_OVERHEAD = Overhead(per_message=30, per_headers=4)
MEMORY_OVERHEAD = Overhead(per_message=16, per_headers=0)
