"""Files that a transfer task has written, read back row group by row group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headwater.model.columns import Columns
from headwater.table import parquet
from headwater.table.output import footer_crc_of
from headwater.table.stored_bytes import StoredBytes, stored


def read_staged(file: Path | StoredBytes) -> Iterator[Columns]:
    """Yield the messages of a file, all checksums verified; its base is 0."""
    opened = stored(file)
    footer = parquet.read_footer(opened, footer_crc_of(opened.name))
    for index in range(len(footer.bounds)):
        yield parquet.read_group(opened, footer, index, 0).columns()
