"""The page of versions on disk says what the code writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwater.control import catalog_schema, declaration, ownership
from headwater.delivery import change
from headwater.journal import opened_head, record
from headwater.log import batch, checkpoint, newest, segment
from headwater.model import cursor, gaps, written
from headwater.stan import records
from headwater.store import copy_source
from headwater.stream import notes
from headwater.table import (
    archive,
    bucket_tables,
    delta_recovery,
    parquet,
    prefix_owner,
    remote_table,
    schema,
    table_snapshot,
)

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "formats.md"
VERSIONS = {
    "`catalog.db`": catalog_schema.VERSION,
    "`epoch`": ownership.VERSION,
    "`epoch` in a cache of a journal": ownership.CACHE_VERSION,
    "`journal`, the mark of a cache of a journal": opened_head.VERSION,
    "a record of a journal": record.VERSION,
    "`stan.<account>.db`": records.VERSION,
    "`identity.json`": declaration.IDENTITY_VERSION,
    "`declared.json`, `consumers/*.json`": declaration.VERSION,
    "`checkpoint`, `checkpoint.copy`": checkpoint.VERSION,
    "`log.newest`": newest.VERSION,
    "`log/<n>.log`, the segment": segment.SEGMENT_VERSION,
    "a batch in a segment": batch.VERSION,
    "the notes of a batch (removals, `Adopted`, `Copied`, `MessageIds`)": notes.VERSION,
    "the cursor of a source or mirror": cursor.LOST_VERSION,
    "the record of a query that writes in bulk": written.VERSION,
    "the gaps of a source or mirror": gaps.VERSION,
    "the state of a consumer": change.VERSION,
    "`table/`, the Delta table": schema.VERSION,
    "`table`, a file in place of the folder, with the address of a table in a bucket": remote_table.VERSION,
    "`table.snapshot`, the last known state of a table in a bucket": table_snapshot.VERSION,
    "`.tables/claimed`, the address that the store has claimed": bucket_tables.VERSION,
    "`.headwater/store` in a bucket, the id of the store whose tables are there": bucket_tables.VERSION,
    "`.headwater/copy` in a bucket, the files of a copy of a store": copy_source.VERSION,
    "`.headwater/owner` in a bucket, the engine that started last with this prefix": prefix_owner.VERSION,
    "`table/checkpoint.sums`": delta_recovery.SUMS_VERSION,
    "a data file, also in `staging/`": parquet.FILE_VERSION,
    "an archive (`STREAM.SNAPSHOT`)": archive.VERSION,
}


@pytest.mark.parametrize("name", VERSIONS)
def test_the_page_names_the_version_that_is_written(name: str) -> None:
    rows = re.findall(r"^\| (.+?) \| .+? \| (\d+) \| .+? \|$", PAGE.read_text(), re.MULTILINE)
    assert dict(rows)[name] == str(VERSIONS[name])
    assert len(rows) == len(VERSIONS)
