"""`headwater settings`: the settings in effect and their origins."""

from __future__ import annotations

from pathlib import Path

import click

from headwater.cli.options import GroupedCommand, load_from, settings_flags
from headwater.settings import rows, seat_rows, shown


@click.command(cls=GroupedCommand)
@settings_flags
def settings(config: Path | None, **flags: str | None) -> None:
    """Print the settings in effect and where each comes from. Secrets are hidden."""
    loaded = load_from(config, flags)
    lines = [("setting", "value", "from")]
    for row in rows():
        value = getattr(loaded.settings, row.name)
        lines.append((row.name, shown(row, value), loaded.origins[row.name]))
    for number, seat in enumerate(loaded.settings.seats, 1):
        held = [(row, getattr(seat, row.name)) for row in seat_rows()]
        lines += [(row.name, shown(row, value), f"seat {number}") for row, value in held if value is not None]
    names, values, _ = (max(map(len, column)) for column in zip(*lines, strict=True))
    for name, text, origin in lines:
        click.echo(f"{name:<{names}}  {text:<{values}}  {origin}")
