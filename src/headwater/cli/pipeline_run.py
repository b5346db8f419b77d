"""`headwater pipeline run`: run the pipelines of an engine on Spark."""

from __future__ import annotations

import os
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
from headwater.replication.handover import SecretFile, seats_of

_EPILOG = """\b
Examples:
  headwater pipeline run --engine 5Xq2TbN0=/lake/pipelines.toml
      on all cores of this machine
  headwater pipeline run --engine 5Xq2TbN0=/lake/pipelines.toml --master spark://hub:7077
      on a cluster whose workers see that file and the checkpoints under the same paths
\b
An engine starts its own runner, unless it runs with --pipelines submitted.
"""


def _is_wanted(row: Field[Any]) -> bool:
    """Return whether a runner uses this setting."""
    return row.metadata["group"] == "Logging" or row.name in ("pipeline_memory", "pipeline_functions")


@click.command("run", cls=GroupedCommand, epilog=_EPILOG)
@partial(settings_flags, is_wanted=_is_wanted)
@click.option("--master", "--spark-master", "spark_master", metavar="TEXT", help="Spark master (local[*]).")
@click.option(
    "--engine",
    "engines",
    multiple=True,
    metavar="ID=FILE",
    help="A store's id and its pipelines.toml; repeatable.",
)
@click.option("--parent", type=int, hidden=True, help="End when this process ends.")
def run(config: Path | None, engines: tuple[str, ...], parent: int | None, **flags: str | None) -> None:
    """Run the pipelines of an engine, until SIGTERM or SIGINT.

    It is a PySpark application and needs Java 17. While an engine is unreachable, it keeps trying.
    """
    settings = load_from(config, flags).settings
    if not engines:
        raise SettingsError(
            "missing engine: pass --engine ID=FILE with the store's id and its pipelines.toml"
        )
    start_journal(settings.log_level, settings.log_format)
    os.umask(UMASK)
    # Imported here: help and usage errors need not wait for Spark's libraries.
    from headwater.spark.pipelines.runner import RunnerOptions, run_pipelines

    functions = (each.strip() for each in (settings.pipeline_functions or "").split(","))
    options = RunnerOptions(
        accounts=tuple(account for each in engines for account in accounts_of(each)),
        master=settings.spark_master,
        memory=settings.pipeline_memory,
        functions=tuple(each for each in functions if each),
        parent=parent,
    )
    run_until_signalled(run_pipelines(options))


def accounts_of(said: str) -> list[Any]:
    """Return the accounts of an engine, each with the file that has its credentials."""
    from headwater.bus.options import ConnectOptions
    from headwater.replication.replicator import EngineAt
    from headwater.spark.pipelines.runner import AccountAt

    store_id, _, file = said.partition("=")
    if not store_id or not file:
        raise SettingsError(f"--engine {said!r} is invalid: pass ID=FILE")
    path = Path(file).absolute()
    secret, accounts = SecretFile(path), []
    for name, seat in seats_of(load(config=path).settings).items():
        if seat.nats_url is None:
            raise SettingsError(f"{path} has no nats_url: pass the pipelines.toml of the engine's store")
        options = ConnectOptions.of(seat, seat.nats_url, "headwater pipelines")
        engine = EngineAt(store_id, options, name, secret)
        accounts.append(AccountAt(engine, path, seat.streams_folder))
    return accounts
