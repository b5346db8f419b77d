"""The schema of every table: Arrow and Delta types, table configuration, statistics, subjects as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.errors import CorruptionError, NewerFormatError
from headwater.model.copied import Copied
from headwater.table.datafile import DataFile, FileContent

PARTITION = "base_seq"
SOURCE = "source"
PARTITIONS = (PARTITION, SOURCE, "source_id", "source_base", "copied_micros")
"""All but the first are null, unless the file is one of a source's origin."""
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""Null in a path."""
CHECKPOINT_COMMITS = 50
MAX_SUBJECT_BOUND = 128

_SUBJECT_TEXT = pa.string()
_SUBJECT_CODES = pa.dictionary(pa.int32(), pa.string())

TIME = pa.timestamp("us", "UTC")


def _fields(subject: pa.DataType) -> list[pa.Field]:
    """Return the columns that a data file holds."""
    return [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("subject", subject, nullable=False),
        pa.field("time", TIME, nullable=False),
        pa.field("nanos", pa.int16(), nullable=False),
        pa.field("headers", pa.binary(), nullable=True),
        pa.field("data", pa.binary(), nullable=False),
    ]


FILE = pa.schema(_fields(_SUBJECT_CODES))
DATA = "data"
OTHERS = pa.schema([field for field in FILE if field.name != DATA])
_PLACE = pa.field(PARTITION, pa.int64(), nullable=False)
TABLE = pa.schema(
    [
        _PLACE,
        *_fields(_SUBJECT_TEXT),
        pa.field(SOURCE, pa.string()),
        pa.field("source_id", pa.string()),
        pa.field("source_base", pa.int64()),
        pa.field("copied_micros", pa.int64()),
    ]
)
TABLE_1 = pa.schema([_PLACE, *_fields(_SUBJECT_TEXT)])
"""The schema of tables without columns for the origin of a file."""

# Reader 1 and writer 2 is what every Delta reader copes with; nothing here may ask for a table feature.
CONFIGURATION = {
    "delta.minReaderVersion": "1",
    "delta.minWriterVersion": "2",
    "delta.enableDeletionVectors": "false",
    "delta.checkpointInterval": str(CHECKPOINT_COMMITS),
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}
VERSION = 2
"""The format of tables. Version 1 has no columns for the source of a file."""
VERSION_KEY = "headwater.version"
"""The table property that names the format. Tables without it have version 1 or 2."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_TEXT = "\ufffd"


def configuration(partitions: Sequence[str]) -> dict[str, str]:
    """Return the table properties of a new table with these partition columns."""
    version = VERSION if SOURCE in partitions else 1
    return {**CONFIGURATION, VERSION_KEY: str(version)}


def require_known(directory: Path, properties: Mapping[str, str | None]) -> None:
    """Raise if the properties of a table name a format that this release does not know."""
    named = properties.get(VERSION_KEY) or "1"
    if not named.isdecimal():
        what = f"the table property {VERSION_KEY} is {named!r}, not a number"
        raise CorruptionError(directory / "_delta_log", 0, what)
    if int(named) > VERSION:
        raise NewerFormatError(f"the table {directory}", int(named), VERSION)


def subject_text(subject: bytes) -> str:
    """Return the subject as the text a table stores, losing nothing when it is not UTF-8."""
    try:
        text = subject.decode()
    except UnicodeDecodeError:
        return _NOT_TEXT + subject.decode("latin-1")
    return text if not text.startswith(_NOT_TEXT) else _NOT_TEXT + subject.decode("latin-1")


def subject_bytes(text: str) -> bytes:
    """Return the subject that a table stores as this text."""
    return text[1:].encode("latin-1") if text.startswith(_NOT_TEXT) else text.encode()


def stats_json(file: DataFile) -> str:
    """Return the statistics of the file's add action."""
    written = file.copied or file
    least: dict[str, Any] = {"offset": file.first_seq - file.base_seq, "time": _time_text(written.first_ts)}
    most: dict[str, Any] = {"offset": file.last_seq - file.base_seq, "time": _time_text(written.last_ts)}
    for bounds, subject in ((least, file.first_subject), (most, file.last_subject)):
        if subject is not None and len(subject) <= MAX_SUBJECT_BOUND:
            bounds["subject"] = subject
    nulls = {"offset": 0, "subject": 0, "time": 0, "nanos": 0, "data": 0}
    if file.headerless_rows is not None:
        nulls["headers"] = file.headerless_rows
    stats = {"numRecords": file.rows, "minValues": least, "maxValues": most, "nullCount": nulls}
    # Not as \u escapes: deltalake 1.6 reads pairs of surrogates wrongly.
    return json.dumps(stats, separators=(",", ":"), ensure_ascii=False)


def partition_values(base_seq: int, copied: Copied | None) -> dict[str, str | None]:
    """Return the partition values of a file's add action."""
    values: dict[str, str | None] = dict.fromkeys(PARTITIONS)
    values[PARTITION] = str(base_seq)
    if copied is not None:
        values_of_source = (copied.source, copied.source_id, str(copied.source_base), str(copied.micros))
        values |= zip(PARTITIONS[1:], values_of_source, strict=True)
    return values


def folder_of(base_seq: int, copied: Copied | None = None, partitions: Sequence[str] = PARTITIONS) -> str:
    """Return the folder of files with these values.

    Polars takes them from the path alone, and reads no table whose paths have different columns.
    """
    values = partition_values(base_seq, copied)
    return "/".join(f"{name}={values[name] or NO_VALUE}" for name in partitions)


def data_files(adds: pa.Table) -> list[DataFile]:
    """Return the files that flattened add actions name, ascending by first sequence."""
    micros = {name: adds[name].cast(pa.int64()).to_pylist() for name in ("min.time", "max.time")}
    names = ("path", "partition.base_seq", "num_records", "min.offset", "max.offset", "size_bytes")
    columns = [adds[name].to_pylist() for name in names]
    bounds = (adds[name].to_pylist() for name in ("min.subject", "max.subject", "null_count.headers"))
    source_columns = [f"partition.{name}" for name in PARTITIONS[1:]]
    has_sources = set(source_columns).issubset(adds.column_names)
    sources = zip(*(adds[name].to_pylist() for name in source_columns), strict=True) if has_sources else ()
    rows = zip(*columns, *micros.values(), *bounds, strict=True)
    files = [
        DataFile.of(
            path,
            base,
            FileContent(count, low, high, first * 1000, last * 1000, least, most, headerless, size),
            _copied(*source) if source and source[0] else None,
        )
        for (path, base, count, low, high, size, first, last, least, most, headerless), source in zip_longest(
            rows, sources
        )
    ]
    return sorted(files, key=lambda file: file.first_seq)


def _copied(source: str, source_id: str, source_base: int, micros: int) -> Copied:
    return Copied(source, source_id, source_base, micros, 0, 0, 0)


def _time_text(ts: int) -> str:
    """Return a time in nanoseconds as Delta statistics write it, cut to the microsecond."""
    return (_EPOCH + timedelta(microseconds=ts // 1000)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
