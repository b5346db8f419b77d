"""The columns of a stream as Arrow types: what Spark, Polars and DuckDB see."""

from __future__ import annotations

import pyarrow as pa

from headwater.table.schema import TIME

HEADERS = pa.map_(pa.string(), pa.list_(pa.string()))
COLUMNS = pa.schema(
    [
        pa.field("seq", pa.int64()),
        pa.field("subject", pa.string()),
        pa.field("time", TIME),
        pa.field("nanos", pa.int16()),
        pa.field("headers", HEADERS),
        pa.field("data", pa.binary()),
    ]
)
"""The columns of a row; `headers` is null if a message has none."""
