"""The rows of data files that a rewrite keeps: those that are neither dead nor below a sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from headwater.model.columns import Columns, Int64s, keep
from headwater.table.datafile import DataFile
from headwater.table.group_reader import GroupReader

Dead = BitMap64 | Callable[[Int64s], npt.NDArray[np.bool_]]
"""The sequences that were removed, or a function that returns which of given sequences were."""


def live_columns(
    reader: GroupReader, files: Sequence[DataFile], dead: Dead, first_seq: int
) -> Iterator[Columns]:
    """Yield the rows to keep, one row group at a time; groups without any are not read."""
    for file in files:
        for index, (first, last) in enumerate(reader.groups(file)):
            if last < first_seq:
                continue
            if isinstance(dead, BitMap64) and dead.range_cardinality(first, last + 1) == last - first + 1:
                continue
            group = reader.read(file, index)
            mask = (group.seqs >= first_seq) & ~_is_dead(dead, group.seqs)
            if mask.any():
                yield keep(group.columns(), mask)


def _is_dead(dead: Dead, seqs: Int64s) -> npt.NDArray[np.bool_]:
    """Return which of these sequences, all of one row group, are dead."""
    if not isinstance(dead, BitMap64):
        return dead(seqs)
    first, last = int(seqs[0]), int(seqs[-1])
    if not dead.range_cardinality(first, last + 1):
        return np.zeros(len(seqs), np.bool_)
    dense = last - first < 4 * len(seqs)
    marked = dead & BitMap64(range(first, last + 1) if dense else seqs.tolist())
    return np.isin(seqs, np.array(marked.to_array(), np.int64), assume_unique=True)
