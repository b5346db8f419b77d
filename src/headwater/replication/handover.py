"""The settings file that an engine leaves in its store for replicators and their tasks.

It says where each seat's nats-server is and who we are there, secrets included, so that neither has to stand
in a plan, an argument, an environment or anything that Spark keeps. Only the engine's own user may read it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from headwater.bus.options import ConnectOptions
from headwater.errors import BusError, SettingsError
from headwater.settings import Settings, load, seat_rows

NAME = "replicator.toml"


def write(path: Path, seats: Iterable[Settings]) -> None:
    """Return once the file holds these seats, whole, readable by nobody else."""
    text = "# Written by headwater at each start, for its replicators; it may hold secrets.\n"
    text += "\n".join(map(_table, seats))
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)


def seats_of(settings: Settings) -> tuple[Settings, ...]:
    """Return the seats of an engine; where there are none, the settings are the only one."""
    return settings.seats or (settings,)


def connect_options(path: str, folder: str, name: str) -> ConnectOptions:
    """Return how the file says to connect for the seat that has this folder of the store."""
    try:
        seats = seats_of(load(config=Path(path)).settings)
    except SettingsError as error:
        raise BusError(f"{error}; transfers take from it who they are") from None
    for seat in seats:
        if seat.streams_folder == folder and seat.nats_url is not None:
            return ConnectOptions.of(seat, seat.nats_url, name)
    raise BusError(f"{path} has no seat with the folder {folder}, so no transfer can be made for it")


def _table(seat: Settings) -> str:
    """Return a seat as a table of TOML, paths made such that they hold in any directory."""
    lines = ["[[seat]]"]
    for row in seat_rows():
        value = getattr(seat, row.name)
        if value is None or (value == row.default and row.name != "account"):
            continue
        shown = str(value.absolute()) if isinstance(value, Path) else value
        lines.append(f"{row.name} = {_quoted(shown) if isinstance(shown, str) else json.dumps(shown)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    # TOML's basic strings are JSON's, but that they want DEL escaped and have no surrogates.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
