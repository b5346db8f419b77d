"""`headwater backfill`: the rows of a Parquet folder or a Delta table as messages of a stream."""

from __future__ import annotations

import json

import click

from headwater.cli.client import Caller, client_command
from headwater.cli.phrases import number
from headwater.cli.progress import Meter
from headwater.client.connection_settings import ConnectionSettings
from headwater.errors import SettingsError
from headwater.replication.work import NatsOrigin

_EPILOG = """\b
Examples:
  headwater backfill export/ ORDERS
      files with the columns subject and data, and perhaps headers and msg_id
  headwater backfill lake/orders ORDERS --subject 'orders.{region}'
      a Delta table; each row becomes a message with all columns as JSON
  headwater backfill export/ ORDERS --subject orders.old --data payload
\b
Run the same command again to continue a backfill that was interrupted: each slice of the source is stored
once. Files that were added, removed or rewritten make another source, which begins at its start.
"""


@click.command(epilog=_EPILOG)
@click.argument("source")
@click.argument("stream")
@click.option("--subject", default="", metavar="TEMPLATE", help="Subject, with column names in braces.")
@click.option("--data", default="", metavar="COLUMN", help="Column with the payload.")
@click.option("--slice", "slice_rows", type=click.IntRange(min=1), help="Messages stored at a time (200000).")
@click.option("--name", default="", help="Name of this backfill; another name stores the source once more.")
@client_command
def backfill(
    caller: Caller, source: str, stream: str, subject: str, data: str, slice_rows: int | None, name: str
) -> None:
    """Store the rows of SOURCE, a Parquet file or folder or a Delta table, in STREAM.

    Without --subject the source must have a column subject. Without --data the payload is the column data, or
    all columns as JSON if there is none.
    """
    # Imported here: no other command needs these libraries.
    from headwater.spark.backfill import Backfill, BackfillSource, MessageShape
    from headwater.spark.bulk_client import bulk_client

    rows = BackfillSource(source, MessageShape(subject, data))
    with bulk_client(origin_of(caller.connection, stream)) as client:
        work = Backfill(rows, client, slice_rows=slice_rows or 0, name=name)
        done = work.done
        with Meter(f"backfill {stream}", rows.rows, shown=not caller.as_json) as meter:
            meter.reach(done)
            stored = work.run(meter.advance)
    if caller.as_json:
        click.echo(json.dumps({"stream": stream, "stored": stored, "already_stored": done}))
        return
    before = f", {number(done)} were there already" if done else ""
    click.echo(f"{number(stored)} messages stored in {stream}{before}")


def origin_of(settings: ConnectionSettings, stream: str) -> NatsOrigin:
    """Return a stream and how to reach it."""
    if settings.jwt or settings.seed:
        raise SettingsError("backfill takes a JWT and a seed only from a credentials file: use --creds")
    is_token = bool(settings.user and not settings.password and not settings.token)
    return NatsOrigin(
        servers=tuple(each.strip() for each in settings.server.split(",") if each.strip()),
        api_prefix=settings.prefix,
        stream=stream,
        user="" if is_token else settings.user,
        password=settings.password,
        token=settings.user if is_token else settings.token,
        creds_file=settings.creds,
        nkey_file=settings.nkey,
        tls_ca=settings.tls_ca,
        tls_cert=settings.tls_cert,
        tls_key=settings.tls_key,
    )
