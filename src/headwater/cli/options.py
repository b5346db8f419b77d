"""The settings as command-line flags, with help in the groups of the reference page."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import Field
from pathlib import Path
from typing import Any, TypeVar

import click

from headwater.loaded_settings import CONFIG_VARIABLE, LoadedSettings, load
from headwater.settings import flag_of, rows

Command = TypeVar("Command", bound=Callable[..., Any])

_METAVARS = {"Path": "PATH", "int": "N", "float": "X", "str": "TEXT", "bool": "[true|false]"}


class GroupedCommand(click.Command):
    """A command whose help shows each group of settings under its own heading."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options group by group, then the command's own."""
        groups: dict[str, list[tuple[str, str]]] = {}
        names = {row.name: row.metadata["group"] for row in rows()}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                groups.setdefault(names.get(parameter.name or "", "General"), []).append(record)
        for group, records in groups.items():
            with formatter.section(group):
                formatter.write_dl(records)


def settings_flags(command: Command, is_wanted: Callable[[Field[Any]], bool] = lambda row: True) -> Command:
    """Give a command one flag for each setting that it uses, and `--config`."""
    for row in reversed([row for row in rows() if is_wanted(row)]):
        kind = str(row.type).removesuffix(" | None")
        choices = row.metadata.get("choices")
        metavar = "|".join(choices) if choices else _METAVARS[kind]
        # Text, because settings are converted and checked in one place, wherever a value comes from.
        alone: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if kind == "bool" else {}
        option = click.option(flag_of(row), row.name, metavar=metavar, help=row.metadata["doc"], **alone)
        command = option(command)
    path = click.Path(dir_okay=False, path_type=Path)
    return click.option("--config", type=path, help=f"TOML file with settings (or {CONFIG_VARIABLE}).")(
        command
    )


def load_from(config: Path | None, flags: Mapping[str, str | None]) -> LoadedSettings:
    """Return the settings of this process, with the flags that were given."""
    given = {name: value for name, value in flags.items() if value is not None}
    return load(given, os.environ, config)
