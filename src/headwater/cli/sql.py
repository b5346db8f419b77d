"""`headwater sql`: a query over streams, on DuckDB in this process or on Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

import click
import pyarrow as pa

from headwater.cli.client import Caller, client_command
from headwater.cli.queried_streams import queried_streams
from headwater.cli.rows_output import FORMATS, MOST_SHOWN, check_output, write_rows
from headwater.cli.spark_progress import spark_progress
from headwater.errors import SettingsError
from headwater.lake.stream_sql import FindStream, run, run_on_spark
from headwater.model.times import format_time, parse_time
from headwater.spark.quiet_session import check_spark, quiet_session

_EPILOG = """\b
Each stream is a table with the columns seq, subject, time, nanos, headers and data (the payload). With a
schema (`headwater stream schema set`), data has typed fields, and _corrupt holds payload that does not
match. The SQL is DuckDB's, which needs the package duckdb and no Java, or with --spark that of Spark.

\b
Examples:
  headwater sql "SELECT subject, count(*) AS messages FROM ORDERS GROUP BY 1 ORDER BY 2 DESC"
  headwater sql "SELECT data.region, sum(data.amount) FROM ORDERS GROUP BY 1"
  headwater sql "SELECT decode(data)::JSON ->> 'amount' FROM ORDERS WHERE subject LIKE 'orders.eu.%'"
  headwater sql --store ./lake --format parquet --output orders.parquet "SELECT * FROM ORDERS"
  headwater sql --as-of-time 2026-11-16T08:00:00Z "SELECT count(*) FROM ORDERS"
  headwater sql --spark --store ./lake "SELECT date(time) AS day, count(*) AS messages FROM ORDERS GROUP BY 1"
  headwater sql --master spark://127.0.0.1:7077 --store /mnt/lake --file daily.sql
"""


@click.command(epilog=_EPILOG)
@click.argument("query", required=False)
@click.option("--file", "query_file", type=click.File(), help="File with the query; - is standard input.")
@click.option(
    "--store",
    default="",
    metavar="PATH",
    help="Read the tables in this store, or s3://BUCKET/PREFIX, instead of asking the server.",
)
@click.option("--account", default="", help="Account whose streams these are, if the store has several.")
@click.option("--live", is_flag=True, help="With --store: also read what is not in the tables yet.")
@click.option(
    "--format",
    "format",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="Output format.",
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.")
@click.option("--as-of-seq", type=click.IntRange(min=1), help="Only messages up to this sequence.")
@click.option("--as-of-time", metavar="TIME", help="Only messages stored up to this RFC 3339 time.")
@click.option("--spark", "on_spark", is_flag=True, help="Run the query on Spark; it needs Java.")
@click.option("--master", default="", metavar="URL", help="Spark master, default local[*]; implies --spark.")
@click.option("--driver-memory", default="1g", show_default=True, help="Memory of Spark's driver.")
@client_command
def sql(
    caller: Caller,
    query: str | None,
    query_file: TextIO | None,
    store: str,
    account: str,
    live: bool,
    format: str,
    output: Path | None,
    as_of_seq: int | None,
    as_of_time: str | None,
    on_spark: bool,
    master: str,
    driver_memory: str,
) -> None:
    """Query streams with SQL.

    Without --store, messages are read through the server: of Headwater and of any nats-server. With --store,
    the files of the tables are read, which is faster and needs no engine; they are about a second behind.
    With --spark, the result must fit into the memory of this process.
    """
    text = query or (query_file.read() if query_file else "")
    if not text.strip():
        raise SettingsError("missing query: pass it as an argument, or with --file")
    bounds = _bounds(as_of_seq, as_of_time)
    find = queried_streams(caller, store, account, live, bounds)
    format = "json" if caller.as_json else format
    if on_spark or master:
        check_output(format, output)
        rows = _on_spark(text, find, master or "local[*]", driver_memory, format)
    else:
        rows = run(text, find)
    write_rows(rows, format, output)
    sys.stdout.flush()


def _on_spark(
    text: str, find: FindStream, master: str, driver_memory: str, format: str
) -> pa.RecordBatchReader:
    """Return the rows of a query on Spark, which has ended by then."""
    check_spark()
    print("starting Spark", file=sys.stderr, flush=True)
    with quiet_session(master, driver_memory) as spark, spark_progress(spark, "Spark tasks"):
        # The command line's own limit of a table, and one row that shows that there are more.
        return run_on_spark(text, find, spark, MOST_SHOWN + 1 if format == "table" else None)


def _bounds(seq: int | None, time: str | None) -> dict[str, str]:
    """Return the options of a read of the past."""
    bounds = {"endSequence": str(seq)} if seq is not None else {}
    if time is not None:
        ts = parse_time(time)
        if ts is None:
            raise SettingsError(f"--as-of-time must be a time such as 2026-11-16T08:00:00Z, not {time!r}")
        # The end of a read is the first time that is too late.
        bounds["endTime"] = format_time(ts + 1)
    return bounds
