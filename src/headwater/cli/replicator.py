"""`headwater replicator`: copy sources and mirrors of an engine's streams on Spark."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import Field
from functools import partial
from pathlib import Path
from typing import Any

import click

from headwater.cli.journal import start_journal
from headwater.cli.options import GroupedCommand, load_from, settings_flags
from headwater.cli.serve import run_until_signalled
from headwater.disk import UMASK
from headwater.errors import SettingsError
from headwater.loaded_settings import load
from headwater.replication.handover import NAME, SecretFile
from headwater.settings import Settings

_EPILOG = """\b
Examples:
  headwater replicator --nats nats://127.0.0.1:4222 --store-id 5Xq2TbN0 --store /lake
      on all cores of this machine
  headwater replicator --engine 5Xq2TbN0=/lake/replicator.toml --master spark://hub:7077
      on a cluster whose workers see the store under the same path
  headwater replicator --engine 5Xq2TbN0=hub.toml --engine 8MpLwQ1z=edge.toml
      one Spark for two engines, each with its engine's settings file
\b
An engine starts its own replicator, unless it runs with --replicator submitted.
"""


def _is_wanted(row: Field[Any]) -> bool:
    """Return whether a replicator uses this setting."""
    return row.metadata["group"] in ("Credentials", "Logging") or row.name in (
        "nats_url",
        "spark_driver_memory",
        "executor_config",
        "replication_secret",
        "store",
    )


@click.command(cls=GroupedCommand, epilog=_EPILOG)
@partial(settings_flags, is_wanted=_is_wanted)
@click.option("--master", "--spark-master", "spark_master", metavar="TEXT", help="Spark master (local[*]).")
@click.option("--store-id", metavar="ID", help="Id of the store to replicate for.")
@click.option(
    "--engine",
    "others",
    multiple=True,
    metavar="ID=FILE",
    help="A store's id and its engine's settings file, instead of --store-id and --nats; repeatable.",
)
@click.option("--parent", type=int, hidden=True, help="End when this process ends.")
def replicator(
    config: Path | None,
    store_id: str | None,
    others: tuple[str, ...],
    parent: int | None,
    **flags: str | None,
) -> None:
    """Run a replicator: copy sources and mirrors as an engine plans them, until SIGTERM or SIGINT.

    It is a PySpark application and needs Java 17. While an engine is unreachable, it keeps trying.
    """
    settings = load_from(config, flags).settings
    reached = _seats_of(store_id, settings, _secret_of(settings)) if store_id is not None else []
    for each in others:
        reached += _engine_of(each)
    if not reached:
        raise SettingsError("missing engine: pass --store-id ID and --nats URL, or --engine ID=FILE")
    if any(seat.nats_url is None for _, _, seat, _ in reached):
        raise SettingsError("missing nats_url: pass the address of the engine's nats-server with --nats URL")
    start_journal(settings.log_level, settings.log_format)
    os.umask(UMASK)
    # Imported here: help and usage errors need not wait for Spark's libraries.
    from headwater.bus.options import ConnectOptions
    from headwater.replication.replicator import EngineAt, ReplicatorOptions, replicate

    options = ReplicatorOptions(
        engines=tuple(
            EngineAt(
                store, ConnectOptions.of(seat, seat.nats_url or "", "headwater replicator"), name, secret
            )
            for store, name, seat, secret in reached
        ),
        master=settings.spark_master,
        driver_memory=settings.spark_driver_memory,
        executor_config=str(settings.executor_config or ""),
        parent=parent,
    )
    run_until_signalled(replicate(options))


_Secret = Callable[[], bytes]


def _engine_of(said: str) -> list[tuple[str, str, Settings, _Secret]]:
    """Return a store's id, once for each seat of its engine."""
    store_id, _, file = said.partition("=")
    if not store_id or not file:
        raise SettingsError(f"--engine {said!r} is invalid: pass ID=FILE")
    return _seats_of(store_id, load(config=Path(file)).settings, SecretFile(Path(file)))


def _secret_of(settings: Settings) -> _Secret:
    """Return the secret shared with the engine: given by flag, or read from its store."""
    if settings.replication_secret is not None:
        secret = settings.replication_secret.encode()
        return lambda: secret
    if settings.store is None:
        raise SettingsError(
            "missing secret of the engine: pass --store DIR, --replication-secret TEXT, or --engine ID=FILE "
            "with the store's replicator.toml"
        )
    return SecretFile(settings.store / NAME)


def _seats_of(store_id: str, settings: Settings, secret: _Secret) -> list[tuple[str, str, Settings, _Secret]]:
    """Return a store's id with the name of each seat in plans; a single seat has the name ""."""
    seats = [(store_id, seat.streams_folder, seat, secret) for seat in settings.seats]
    return seats or [(store_id, "", settings, secret)]
