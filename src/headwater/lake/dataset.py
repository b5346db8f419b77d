"""A stream as an Arrow dataset, which Polars and DuckDB scan with their columns and filters pushed down.

The stream is looked at once for each scan: the files of its table and, with a server, what was removed and
the messages that are in no file yet. Files and row groups that cannot match the filter are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from headwater.lake.scanner import ColumnChoice, StreamScanner
from headwater.spark import guarantee
from headwater.spark.columns import COLUMNS
from headwater.spark.range_reader import read_batches
from headwater.spark.reading import Reading
from headwater.table.datafile import DataFile


class StreamDataset(ds.Dataset):  # type: ignore[misc]
    """The messages of one stream; the columns are `seq`, `subject`, `time`, `nanos`, `headers` and `data`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._reading = Reading(options)

    def __reduce__(self) -> Any:
        raise TypeError("a stream's dataset cannot be pickled: scan the stream where it is needed")

    @property
    def schema(self) -> pa.Schema:
        """Return the columns."""
        return COLUMNS

    def table_last_seq(self) -> int:
        """Return the last sequence that is in the table; 0 if it has no files."""
        return self._reading.table_last_seq()

    def last_seq(self) -> int:
        """Return the last sequence of the stream, as its server reports it."""
        return self._reading.extent().last_seq

    def scanner(
        self,
        columns: ColumnChoice = None,
        filter: pc.Expression | None = None,
        **options: Any,
    ) -> StreamScanner:
        """Return one scan of the stream as it is now; other options of Arrow's scanners have no effect."""
        names = _needed(columns, filter)
        schema = pa.schema([COLUMNS.field(name) for name in names])
        return StreamScanner(self._batches(names, filter), schema, columns, filter)

    def to_batches(
        self, columns: ColumnChoice = None, filter: pc.Expression | None = None, **options: Any
    ) -> Any:
        """Return the messages, a record batch at a time."""
        return self.scanner(columns, filter).to_batches()

    def to_table(
        self, columns: ColumnChoice = None, filter: pc.Expression | None = None, **options: Any
    ) -> Any:
        """Return the messages as an Arrow table."""
        return self.scanner(columns, filter).to_table()

    def count_rows(self, filter: pc.Expression | None = None, **options: Any) -> int:
        """Return how many messages match; payload is not read."""
        counted: int = self.scanner(["seq"], filter).count_rows()
        return counted

    def head(
        self, num_rows: int, columns: ColumnChoice = None, filter: pc.Expression | None = None, **options: Any
    ) -> Any:
        """Return the first messages as an Arrow table."""
        return self.scanner(columns, filter).head(num_rows)

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Any]:
        """Refuse: fragments would read the files without what the stream knows of them."""
        raise NotImplementedError("a stream has no fragments: use scanner, to_batches or to_table")

    def _batches(self, names: Sequence[str], wanted: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        def keep(file: DataFile, group: pq.RowGroupMetaData) -> bool:
            return guarantee.may_match(wanted, guarantee.of_group(file, group))

        for part in self._reading.ranges():
            if guarantee.may_match(wanted, guarantee.of_part(part)):
                yield from read_batches(part, self._reading.origin, names, self._reading.selection, keep)


def _needed(columns: ColumnChoice, filter: pc.Expression | None) -> list[str]:
    """Return the columns that a scan reads; a column that only seems to be named costs time, not truth."""
    if columns is None:
        return list(COLUMNS.names)
    texts = [str(filter)] if filter is not None else []
    texts += list(columns) if not isinstance(columns, Mapping) else map(str, columns.values())
    named = set(re.findall(r"\w+", " ".join(texts)))
    return [name for name in COLUMNS.names if name in named] or ["seq"]
