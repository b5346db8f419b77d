"""`headwater settings`: the settings in effect, and where each came from."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from headwater.cli.options import GroupedCommand, load_from, settings_flags
from headwater.settings import rows, shown


@click.command(cls=GroupedCommand)
@settings_flags
def settings(config: Path | None, **flags: str | None) -> None:
    """Print the settings in effect and where each came from; secrets stay hidden."""
    loaded = load_from(config, flags)
    table = Table(box=None, pad_edge=False)
    for heading in ("setting", "value", "from"):
        table.add_column(heading, overflow="fold")
    for row in rows():
        value = getattr(loaded.settings, row.name)
        table.add_row(row.name, shown(row, value), loaded.origins[row.name])
    # A pipe has no width, and the width that is taken for it would cut values.
    width = None if sys.stdout.isatty() else 500
    Console(highlight=False, markup=False, width=width).print(table)
