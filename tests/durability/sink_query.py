"""A query that writes numbered batches to two streams, as Spark does: plan, parts, commit, checkpoint.

`python sink_query.py URL CHECKPOINT BATCHES` begins after the last batch in its checkpoint. It ends when a
request is refused, as a query of Spark does.
"""

from __future__ import annotations

import sys
import uuid
from pathlib import Path

import pyarrow as pa

from headwater.replication.work import NatsOrigin
from headwater.spark.bulk_client import bulk_client
from headwater.spark.message_rows import MessageRows

PARTS = 2
ROWS = 150
STREAMS = ("PLAIN", "RULED")
QUERY = "the-query"


def rows_of(stream: str, batch: int, part: int) -> list[str]:
    """Return the data of the rows of one part."""
    return [f"{stream} {batch} {part} {row}" for row in range(ROWS)]


def write(url: str, stream: str, batch: int) -> None:
    """Write one batch to one stream and commit it."""
    origin = NatsOrigin(servers=(url,), api_prefix="$JS.API", stream=stream)
    name = f"{QUERY}:{batch}"
    with bulk_client(origin) as client:
        parts = []
        for number in range(PARTS):
            part = client.part(name, f"{number}.{uuid.uuid4().hex}")
            datas = rows_of(stream, batch, number)
            subjects = [f"{stream}.{row % 7}" for row in range(ROWS)]
            for rows in MessageRows(pa.record_batch({"subject": subjects, "data": datas})).chunks(3_000):
                part.append(rows)
            part.finish()
            parts.append(part.name)
        client.commit(name, QUERY, batch, parts, PARTS * ROWS)


def main(url: str, checkpoint: Path, batches: int) -> None:
    """Run the query from its checkpoint on."""
    done = int(checkpoint.read_text()) if checkpoint.exists() else -1
    for batch in range(done + 1, batches):
        for stream in STREAMS:
            write(url, stream, batch)
        new = checkpoint.with_suffix(".new")
        new.write_text(str(batch))
        new.replace(checkpoint)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
