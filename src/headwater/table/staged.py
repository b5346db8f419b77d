"""Files that a transfer task has written, read back row group by row group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headwater.model.columns import Columns
from headwater.table import parquet
from headwater.table.output import footer_crc_of


def read_staged(path: Path) -> Iterator[Columns]:
    """Yield the messages of a file, all checksums verified; its base is 0."""
    footer = parquet.read_footer(path, footer_crc_of(str(path)))
    for index in range(len(footer.bounds)):
        yield parquet.read_group(path, footer, index, 0).columns()
