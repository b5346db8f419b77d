"""Files of a table for tests that read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headwater.disk import RealDisk
from headwater.model.message import Message
from headwater.table.datafile import DataFile
from headwater.table.output import Output
from headwater.table.table_storage import LocalTableStorage
from table.samples import columns_of


def file_of(directory: Path, messages: Sequence[Message]) -> DataFile:
    """Write the messages as a file of a table, and return it with its absolute path."""
    with Output(LocalTableStorage(directory, RealDisk(sync=False)), "files", 0, "none") as output:
        output.append(columns_of(messages))
        file = output.finish()
    return replace(file, path=str(directory / file.path))
