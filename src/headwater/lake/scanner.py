"""One scan of a stream: batches in, filtered and projected batches out.

Arrow's own `Scanner.from_batches` reads a Python iterator on a thread of its own. When the caller stops early
(`LIMIT`), that thread still runs Python while the scan is destroyed or the interpreter ends, and both hang.
This scanner reads in the caller's thread, and stopping early just closes the iterator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

ColumnChoice = Sequence[str] | Mapping[str, pc.Expression] | None


class StreamScanner:
    """Has the methods of Arrow's scanner that DuckDB, Polars and `headwater.read` call."""

    def __init__(
        self,
        batches: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        columns: ColumnChoice,
        filter: pc.Expression | None,
    ) -> None:
        self._batches = batches
        self._columns = columns
        self._filter = filter
        self.dataset_schema: pa.Schema = schema
        self.projected_schema: pa.Schema = (
            ds.dataset(schema.empty_table()).scanner(columns=columns).projected_schema
        )

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Return what matches, a record batch at a time."""
        for batch in self._batches:
            # In memory, so Arrow's threads run no Python.
            found = ds.dataset(pa.Table.from_batches([batch]))
            yield from found.to_batches(columns=self._columns, filter=self._filter, use_threads=False)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return what matches as a reader."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """Return what matches as a table in memory."""
        return pa.Table.from_batches(self.to_batches(), schema=self.projected_schema)

    def count_rows(self) -> int:
        """Return how many messages match."""
        return sum(batch.num_rows for batch in self.to_batches())

    def head(self, num_rows: int) -> pa.Table:
        """Return the first messages that match; nothing after them is read."""
        taken: list[pa.RecordBatch] = []
        left = num_rows
        for batch in self.to_batches() if num_rows > 0 else ():
            taken.append(batch.slice(0, left))
            left -= taken[-1].num_rows
            if left <= 0:
                break
        return pa.Table.from_batches(taken, schema=self.projected_schema)
