"""Messages that are no longer held are removed, from head and table alike, and no others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from headwater.model.run import Run
from headwater.stream.retention.release import removals
from stream.streams import Workshop, publish


def odd(run: Run, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    return np.array([row for row in rows.tolist() if run.seqs[row] % 2 == 1], np.intp)


@pytest.mark.parametrize(("start", "stop"), [(0, 99), (3, 7), (1, 0), (8, 20)])
async def test_a_range_over_table_and_head_is_gone_through(tmp_path: Path, start: int, stop: int) -> None:
    workshop = Workshop(tmp_path)
    async with workshop.stream() as stream:
        await publish(stream, *[(b"a", b"")] * 6)
        await stream.folder.fold()
        await publish(stream, *[(b"b", b"")] * 6)
        found = [removal async for removal in removals(stream._store, odd, start, stop)]
        seqs = sorted(seq for removal in found for seq in removal.seqs)
        assert seqs == [seq for seq in range(1, 13, 2) if start <= seq <= stop]
        assert sum(sum(removal.subjects.values()) for removal in found) == len(seqs)
    workshop.close()
