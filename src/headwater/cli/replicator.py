"""`headwater replicator`: copy what an engine's streams take from their origins, on Spark."""

from __future__ import annotations

from dataclasses import Field
from functools import partial
from pathlib import Path
from typing import Any

import click

from headwater.cli.connection import Connection
from headwater.cli.journal import start_journal
from headwater.cli.options import GroupedCommand, load_from, settings_flags
from headwater.cli.serve import run_until_told
from headwater.errors import SettingsError
from headwater.settings import Settings

_EPILOG = """\b
Examples:
  headwater replicator --nats nats://127.0.0.1:4222 --store-id 5Xq2TbN0
      on all cores of this machine
  headwater replicator --nats nats://hub:4222 --creds lake.creds --store-id 5Xq2TbN0 --master spark://hub:7077
      on a cluster whose workers see the store under the same path
\b
An engine starts a replicator of its own, unless it runs with --replicator submitted.
"""


def _is_wanted(row: Field[Any]) -> bool:
    """Return whether a replicator has a use for this setting."""
    return row.metadata["group"] in ("Credentials", "Logging") or row.name in (
        "nats_url",
        "spark_driver_memory",
    )


@click.command(cls=GroupedCommand, epilog=_EPILOG)
@partial(settings_flags, is_wanted=_is_wanted)
@click.option(
    "--master", "--spark-master", "spark_master", metavar="TEXT", help="Spark master to run on; local[*]."
)
@click.option("--store-id", required=True, metavar="ID", help="The store whose engine plans and commits.")
@click.option("--parent", type=int, hidden=True, help="Process with which to end.")
def replicator(config: Path | None, store_id: str, parent: int | None, **flags: str | None) -> None:
    """Run a replicator: copy sources and mirrors as an engine plans them, until SIGTERM or SIGINT.

    It is a PySpark application and needs Java 17. It waits for an engine that is away, however long.
    """
    settings = load_from(config, flags).settings
    if settings.nats_url is None:
        raise SettingsError("nats_url is missing: say where the engine's nats-server is with --nats URL")
    start_journal(settings.log_level, settings.log_format)
    # Imported here: help and usage errors need not wait for Spark's libraries.
    from headwater.replication.replicator import ReplicatorOptions, replicate

    options = ReplicatorOptions(
        store_id=store_id,
        nats=connection_of(settings).options(),
        master=settings.spark_master,
        driver_memory=settings.spark_driver_memory,
        parent=parent,
    )
    run_until_told(replicate(options))


def connection_of(settings: Settings) -> Connection:
    """Return how the settings say to connect."""
    return Connection(
        server=settings.nats_url or "",
        user=settings.user or "",
        password=settings.password or "",
        token=settings.token or "",
        creds=str(settings.creds or ""),
        nkey=str(settings.nkey or ""),
        tls_cert=str(settings.tls_cert or ""),
        tls_key=str(settings.tls_key or ""),
        tls_ca=str(settings.tls_ca or ""),
    )
