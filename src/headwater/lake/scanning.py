"""`headwater.scan` and `headwater.read`: a stream for Polars, DuckDB or Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import Error, SettingsError
from headwater.lake.dataset import StreamDataset
from headwater.spark.columns import COLUMNS

if TYPE_CHECKING:
    import duckdb
    import polars

Engine = Literal["polars", "arrow", "duckdb"]
_SCHEMES = ("nats", "tls")


class EngineMissingError(Error):
    """The library that was asked for is not installed."""


@overload
def scan(stream: str | Path, *, engine: Literal["polars"] = ..., **options: str) -> polars.LazyFrame: ...
@overload
def scan(stream: str | Path, *, engine: Literal["arrow"], **options: str) -> StreamDataset: ...
@overload
def scan(stream: str | Path, *, engine: Literal["duckdb"], **options: str) -> duckdb.DuckDBPyRelation: ...
def scan(stream: str | Path, *, engine: Engine = "polars", **options: str) -> Any:
    """Return a stream that is read when the result is used, with columns and filters pushed down.

    `engine` selects the result: a Polars LazyFrame, a pyarrow dataset (`"arrow"`) or a DuckDB relation
    (`"duckdb"`). Polars and DuckDB must be installed.

    `stream` is a stream's folder in a store (`lake/$G/ORDERS`) or in a bucket (`s3://lake/prod/$G/ORDERS`,
    with credentials from the environment or an AWS profile), or an address to read through the API
    (`nats://host:4222/ORDERS`, with `?domain=NAME` for a domain). With a folder, the option `server` adds
    what is not in the table yet and leaves out what was removed a moment ago. The other options are those of
    Spark's data source: `user`, `password`, `token`, `creds`, `nkey`, `tlsCa`, `tlsCert`, `tlsKey`, `domain`,
    `subject`, `startSequence`, `endSequence`, `startTime`, `endTime`.

    The columns are `seq`, `subject`, `time`, `nanos`, `headers` and `data`. Rows are in the order of `seq`.
    Each scan reads the stream as it is at that time.
    """
    dataset = StreamDataset(_asked(stream, options))
    if engine == "arrow":
        return dataset
    if engine == "polars":
        return _imported("polars").scan_pyarrow_dataset(dataset)
    if engine == "duckdb":
        return _imported("duckdb").from_arrow(dataset)
    raise SettingsError(f"engine {engine!r} is unknown: polars, arrow or duckdb")


def read(
    stream: str | Path,
    *,
    columns: Sequence[str] | None = None,
    filter: pc.Expression | None = None,
    limit: int | None = None,
    **options: str,
) -> pa.Table:
    """Return messages of a stream as an Arrow table in memory; see `scan` for the stream and the options.

    `filter` is an expression of `pyarrow.compute`, for example `field("seq") > 100`. `limit` returns the
    first messages that match it.
    """
    unknown = [name for name in columns or () if name not in COLUMNS.names]
    if unknown:
        raise SettingsError(f"there is no column {unknown[0]!r}: the columns are {', '.join(COLUMNS.names)}")
    dataset = StreamDataset(_asked(stream, options))
    try:
        return dataset.to_table(columns, filter) if limit is None else dataset.head(limit, columns, filter)
    except pa.ArrowInvalid as error:
        raise SettingsError(f"the filter is invalid: {str(error).partition(chr(10))[0]}") from error


def _asked(stream: str | Path, options: dict[str, str]) -> dict[str, str]:
    """Return the options of one read, with those that an address holds."""
    text = str(stream)
    parts = urlsplit(text)
    if parts.scheme not in _SCHEMES or isinstance(stream, Path):
        return {**options, "path": text}
    name = unquote(parts.path.strip("/"))
    if not name or "/" in name:
        raise SettingsError(f"{_without_secrets(text)!r} does not name a stream: nats://host:4222/STREAM")
    found = {"server": f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", "stream": name}
    if parts.username and parts.password is None:
        found["token"] = unquote(parts.username)
    elif parts.username:
        found |= {"user": unquote(parts.username), "password": unquote(parts.password or "")}
    return {**found, **dict(parse_qsl(parts.query)), **options}


def _without_secrets(address: str) -> str:
    head, at, rest = address.rpartition("@")
    return f"{head.partition('://')[0]}://…@{rest}" if at else address


def _imported(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        raise EngineMissingError(f"{name} is not installed: pip install {name}") from None
