"""A process that commits, rewrites and maintains a table until it is stopped."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

from pyroaring import BitMap64

from headwater.disk import RealDisk
from headwater.table import Table
from table.samples import columns

BATCH = 25


def main(directory: Path, stop: Path) -> None:
    """Commit batches of BATCH messages, each with the sequence it reaches; every second one is placed."""
    table = Table.open(directory, RealDisk(sync=False))
    for number in count():
        if stop.exists():
            break
        base = number * BATCH
        file = table.place(table.write(columns(range(1, BATCH + 1))), base) if number % 2 else None
        file = file or table.write(columns(range(base + 1, base + BATCH + 1)))
        table.commit([file], transactions={"headwater-fold": base + BATCH})
        if number % 10 == 9:
            recent = table.files[-10:]
            table.commit(table.rewrite(recent, BitMap64(), 1), recent)
        table.maintain()
        table.sweep(grace_s=1e9, now_s=float(number))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
