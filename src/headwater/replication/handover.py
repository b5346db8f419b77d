"""The settings file that an engine leaves in its store for replicators and their tasks.

It says where each seat's nats-server is and who we are there, secrets included, so that neither has to stand
in a plan, an argument, an environment or anything that Spark keeps. Only the engine's own user may read it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from headwater.bus.options import ConnectOptions
from headwater.errors import BusError, SettingsError
from headwater.loaded_settings import load
from headwater.settings import Settings, seat_rows

NAME = "replicator.toml"
HERE = "HEADWATER_EXECUTOR_CONFIG"
"""The variable by which a host says where it has the file, or a folder of such files."""


def write(path: Path, settings: Settings) -> None:
    """Return once the file holds who an engine is at each of its seats, readable by nobody else."""
    text = "# Written by headwater at each start, for its replicators; it may hold secrets.\n"
    text += "".join(f"\n[[seat]]\n{_keys(seat)}" for seat in settings.seats) or _keys(settings)
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)


def seats_of(settings: Settings) -> dict[str, Settings]:
    """Return the seats of an engine by what they are called in plans; a single account is called nothing."""
    return {seat.streams_folder: seat for seat in settings.seats} or {"": settings}


def connect_options(path: str, folder: str, name: str) -> ConnectOptions:
    """Return how the file says to connect for the seat that has this folder of the store."""
    here = path_here(Path(path), os.environ)
    try:
        seats = seats_of(load(config=here).settings)
    except SettingsError as error:
        raise BusError(f"{error}; transfers take from it who they are") from None
    for seat in seats.values():
        if seat.streams_folder == folder and seat.nats_url is not None:
            return ConnectOptions.of(seat, seat.nats_url, name)
    raise BusError(f"{here} has no seat with the folder {folder}, so no transfer can be made for it")


def path_here(path: Path, environ: Mapping[str, str]) -> Path:
    """Return where this host has the file of a store: where the engine wrote it, unless it says otherwise.

    In a folder, it has the name of the store's own: of `/lake/replicator.toml` that is `lake.toml`.
    """
    said = environ.get(HERE)
    if not said:
        return path
    return Path(said, f"{path.parent.name}.toml") if Path(said).is_dir() else Path(said)


def _keys(seat: Settings) -> str:
    """Return a seat's own settings as keys of TOML, paths made such that they hold in any directory."""
    lines = []
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
