"""A Parquet folder or a Delta table as messages of a stream, in slices that are each stored once.

The slices of a source have numbers, and the stream records the last one that it has stored. A backfill that
is run again continues after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headwater.errors import SettingsError
from headwater.spark.bulk_client import BulkClient, SinkError
from headwater.spark.message_rows import DATA, HEADERS, MESSAGE_ID, SUBJECT, MessageRows
from headwater.wire.bulk_requests import MOST_NAME

READ_ROWS = 16_384
SLICE_ROWS = 200_000
"""How many messages are stored as one change, unless the rules of the stream allow fewer."""
_FIELD = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True)
class MessageShape:
    """How rows become messages."""

    subject: str = ""
    """The subject, with column names in braces; empty uses the column `subject`."""
    data: str = ""
    """The column with the payload; empty uses `data`, or all columns as JSON if there is none."""

    def columns_of(self, schema: pa.Schema) -> list[str]:
        """Return the columns to read; raise if one is missing."""
        wanted = _FIELD.findall(self.subject) if self.subject else [SUBJECT]
        data = self.data or (DATA if DATA in schema.names else "")
        wanted += [data] if data else schema.names
        wanted += [name for name in (HEADERS, MESSAGE_ID) if name in schema.names]
        missing = [name for name in wanted if name not in schema.names]
        if missing:
            raise SettingsError(f"the source has no column {missing[0]!r}; it has {', '.join(schema.names)}")
        return list(dict.fromkeys(wanted))

    def messages(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with the columns of messages."""
        columns = {SUBJECT: self._subjects(rows), DATA: self._datas(rows)}
        columns |= {name: rows.column(name) for name in (HEADERS, MESSAGE_ID) if name in rows.schema.names}
        return pa.record_batch(columns)

    def _subjects(self, rows: pa.RecordBatch) -> pa.Array:
        if not self.subject:
            return rows.column(SUBJECT)
        pieces = _FIELD.split(self.subject)
        parts = [
            rows.column(piece).cast(pa.string()) if number % 2 else pa.scalar(piece)
            for number, piece in enumerate(pieces)
        ]
        joined = pc.binary_join_element_wise(*parts, "")
        return joined if isinstance(joined, pa.Array) else pa.repeat(joined, rows.num_rows)

    def _datas(self, rows: pa.RecordBatch) -> pa.Array:
        name = self.data or DATA
        if name in rows.schema.names:
            return rows.column(name)
        return pa.array([json.dumps(row, default=str, ensure_ascii=False) for row in rows.to_pylist()])


class BackfillSource:
    """The rows of a source in an order that does not change."""

    def __init__(self, path: str, shape: MessageShape) -> None:
        self._shape = shape
        dataset = _dataset(path)
        self._schema = dataset.schema
        self._columns = shape.columns_of(dataset.schema)
        self._fragments = sorted(dataset.get_fragments(), key=lambda each: each.path)
        self._counts = [fragment.count_rows() for fragment in self._fragments]

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return sum(self._counts)

    def identity(self, slice_rows: int) -> str:
        """Return what tells this source, its slices and its messages from others."""
        names = [Path(fragment.path).name for fragment in self._fragments]
        parts = (names, self._counts, slice_rows, self._shape.subject, self._shape.data)
        return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()

    def slices(self, slice_rows: int, first: int) -> Iterator[list[pa.RecordBatch]]:
        """Yield the messages of each slice from number `first` on."""
        waiting: list[pa.RecordBatch] = []
        room = slice_rows
        for batch in self._batches(first * slice_rows):
            while batch.num_rows >= room:
                yield [*waiting, batch.slice(0, room)]
                batch, waiting, room = batch.slice(room), [], slice_rows
            if batch.num_rows:
                waiting.append(batch)
                room -= batch.num_rows
        if waiting:
            yield waiting

    def _batches(self, skipped: int) -> Iterator[pa.RecordBatch]:
        for fragment, count in zip(self._fragments, self._counts, strict=True):
            if skipped >= count:
                skipped -= count
                continue
            found = fragment.to_batches(schema=self._schema, columns=self._columns, batch_size=READ_ROWS)
            for batch in found:
                rows = batch.slice(min(skipped, batch.num_rows))
                skipped -= batch.num_rows - rows.num_rows
                if rows.num_rows:
                    yield self._shape.messages(rows)


class Backfill:
    """One source into one stream."""

    def __init__(
        self, source: BackfillSource, client: BulkClient, *, slice_rows: int = 0, name: str = ""
    ) -> None:
        """Prepare to write; with another `name` the same source is stored once more."""
        if not (name.isascii() and name.isprintable() and " " not in name and len(name) <= MOST_NAME // 2):
            raise SettingsError(f"the name of a backfill must be short and without blanks, not {name!r}")
        offer = client.offer()
        if offer is None:
            raise SinkError("the server takes no bulk writes: it is not a Headwater engine, or an older one")
        self._source = source
        self._client = client
        self._slice_rows = slice_rows or min(SLICE_ROWS, int(offer.get("most_messages", SLICE_ROWS)))
        self.query = f"backfill:{source.identity(self._slice_rows)}{':' if name else ''}{name}"
        self._next = client.last_batch(self.query) + 1

    @property
    def done(self) -> int:
        """Return how many rows the stream has already."""
        return min(self._next * self._slice_rows, self._source.rows)

    def run(self, on_stored: Callable[[int], None] = lambda rows: None) -> int:
        """Store what is missing; return how many rows that were. Call back with the rows of each slice."""
        stored = 0
        for batches in self._source.slices(self._slice_rows, self._next):
            count = self._store(batches)
            self._next += 1
            stored += count
            on_stored(count)
        return stored

    def _store(self, batches: list[pa.RecordBatch]) -> int:
        part = self._client.part(self.query, uuid4().hex)
        for batch in batches:
            for rows in MessageRows(batch).chunks(self._client.chunk_bytes):
                part.append(rows)
        count = part.finish()
        self._client.commit(self.query, self.query, self._next, [part.name], count)
        return count


def _dataset(path: str) -> ds.Dataset:
    """Return a Delta table, or a Parquet file or folder."""
    place = Path(path)
    if not place.exists():
        raise SettingsError(f"{path} does not exist")
    try:
        if (place / "_delta_log").is_dir():
            from deltalake import DeltaTable

            return DeltaTable(path).to_pyarrow_dataset()
        return ds.dataset(path, format="parquet", partitioning="hive")
    except (pa.ArrowException, OSError) as error:
        raise SettingsError(f"cannot read {path}: {error}") from None
