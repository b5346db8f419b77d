"""A run of stored messages in ascending sequence: a batch of the log or a row group of the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from headwater.model.columns import Int64s
from headwater.model.message import Message


class Run(Protocol):
    """What readers need of a part of a stream, whether it is in the head or in the body."""

    def __len__(self) -> int:
        """Return how many messages the run has, including removed ones."""
        ...

    @property
    def nbytes(self) -> int:
        """Return about how much memory the run takes, for caches."""
        ...

    @property
    def seqs(self) -> Int64s:
        """Return the sequences, ascending."""
        ...

    @property
    def ts(self) -> Int64s:
        """Return the timestamps in nanoseconds."""
        ...

    @property
    def sizes(self) -> Int64s:
        """Return len(subject) + len(headers) + len(data) of each message."""
        ...

    @property
    def subjects(self) -> list[bytes]:
        """Return the subject of each message."""
        ...

    @property
    def with_headers(self) -> npt.NDArray[np.bool_]:
        """Return which messages have headers."""
        ...

    def subject_mask(self, takes: Callable[[bytes], bool]) -> npt.NDArray[np.bool_]:
        """Return for each message whether its subject matches."""
        ...

    def payloads(self, rows: Sequence[int]) -> tuple[list[bytes], list[bytes]]:
        """Return headers and data of the messages at these rows."""
        ...

    def subjects_at(self, rows: Sequence[int]) -> list[bytes]:
        """Return the subjects of the messages at these rows."""
        ...

    def message(self, index: int) -> Message:
        """Return the message at this index of the run."""
        ...


def numbers_at(column: Int64s, rows: Sequence[int]) -> list[int]:
    """Return a column's numbers at these rows."""
    numbers: list[int] = (
        column[rows.start : rows.stop] if isinstance(rows, range) else column[rows]
    ).tolist()
    return numbers


def values_at(column: Sequence[bytes], rows: Sequence[int]) -> list[bytes]:
    """Return a column's values at these rows."""
    if isinstance(rows, range):
        return list(column[rows.start : rows.stop])
    return [column[row] for row in rows]
