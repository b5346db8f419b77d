"""Whether the checkpoint or the end of the log of a stream is missing; asked when the stream is opened.

A stream without them would look like a new one, or like one that ends earlier: its sequences would be used
again. So it is refused, until the files are restored or `headwater store repair` has taken from the table
what is there.
"""

from __future__ import annotations

from pathlib import Path

from headwater.disk import Disk
from headwater.errors import CorruptionError
from headwater.log.recovery import numbers_in
from headwater.log.segment import read_header
from headwater.table.delta_recovery import REPAIR
from headwater.table.table import Table


class MissingLogError(CorruptionError):
    """The end of a log is missing, and it is not known how much it held."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(path, 0, f"{what}; restore the log, or {REPAIR}")


def missing_checkpoint(path: Path) -> CorruptionError:
    """Return the error of a stream that had a checkpoint."""
    return CorruptionError(path, 0, f"the checkpoint is missing; {REPAIR}")


def had_checkpoint(disk: Disk, log: Path, table: Table) -> bool:
    """Return whether a missing checkpoint was there: the log was trimmed, or only the table is left."""
    numbers = numbers_in(log, disk) if log.exists() else []
    if not numbers:
        return bool(table.files)
    header = read_header(disk, log, numbers[0])
    return header is not None and header.previous > 0
