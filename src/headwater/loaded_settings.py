"""Settings from flags, the environment, a TOML file and defaults; each value is checked with its origin."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from headwater.errors import SettingsError
from headwater.settings import PREFIX, PROOFS, Settings, flag_of, rows, seat_rows, shown, variable_of

CONFIG_VARIABLE = "HEADWATER_CONFIG"
_SIZE = re.compile(r"(\d+)\s*(KiB|MiB|GiB|TiB)?")
_SIZE_UNITS = {None: 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SEAT = "seat"
"""The name of the tables of a settings file that each describe a seat."""


@dataclass(frozen=True)
class LoadedSettings:
    """Settings, and the origin of each value."""

    settings: Settings
    origins: Mapping[str, str]


def load(
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    config: Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> LoadedSettings:
    """Return the settings: flags override the environment, which overrides the file and the defaults.

    `options` are flags of a Python caller; errors name them as the caller wrote them.
    """
    environ = environ or {}
    variables = {k: v for k, v in environ.items() if k.startswith(PREFIX) and k != CONFIG_VARIABLE}
    if config is None and environ.get(CONFIG_VARIABLE):
        config = Path(environ[CONFIG_VARIABLE])
    file = {} if config is None else _read_file(config)
    tables = file.pop(_SEAT, [])
    sources: list[tuple[Mapping[str, Any], Callable[[Field[Any]], str], str]] = [
        (file, lambda s: s.name, f"{config}: {{}}"),
        (variables, variable_of, "environment variable {}"),
        (flags or {}, lambda s: s.name, "flag {}"),
        (options or {}, lambda s: s.name, "option {}"),
    ]
    values: dict[str, Any] = {}
    origins = {setting.name: "default" for setting in rows()}
    for source, key_of, origin in sources:
        known = {key_of(setting): setting for setting in rows()}
        for key, value in source.items():
            if key not in known:
                raise SettingsError(_unknown(origin.format(key), key, known))
            setting = known[key]
            place = origin.format(flag_of(setting) if source is flags else key)
            values[setting.name] = _convert(setting, value, place)
            origins[setting.name] = place
    return LoadedSettings(Settings(**values, seats=_seats(values, tables, f"{config}")), origins)


def _seats(values: Mapping[str, Any], tables: Any, place: str) -> tuple[Settings, ...]:
    """Return the seats of a file; a seat inherits the other settings, except account and credentials."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SettingsError(f"{place}: {_SEAT} must be tables, each headed [[{_SEAT}]]")
    own = ("account", "folder", *PROOFS)
    if tables and (outside := [name for name in own if name in values]):
        raise SettingsError(f"{outside[0]} must be set in each [[{_SEAT}]] of {place}, not outside of them")
    known = {setting.name: setting for setting in seat_rows()}
    seats: list[Settings] = []
    for number, table in enumerate(tables, 1):
        here = f"{place}: {_SEAT} {number}"
        for key in table.keys() - known.keys():
            raise SettingsError(_unknown(f"{here}: {key}", key, known))
        given = {key: _convert(known[key], value, f"{here}: {key}") for key, value in table.items()}
        seats.append(_seat({**values, **given}, here))
        if (folder := seats[-1].streams_folder) in (seat.streams_folder for seat in seats[:-1]):
            raise SettingsError(f"{here} has the folder {folder} of another seat: set another folder")
    return tuple(seats)


def _seat(values: Mapping[str, Any], place: str) -> Settings:
    for name in ("account", "nats_url"):
        if name not in values:
            raise SettingsError(f"{place} has no {name}")
    try:
        return Settings(**values)
    except SettingsError as error:
        raise SettingsError(f"{place}: {error}") from None


def _read_file(path: Path) -> dict[str, Any]:
    """Return the keys of a TOML file."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read the settings file {path}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"the settings file {path} is not TOML: {error}") from None


def _unknown(place: str, key: str, known: Mapping[str, Any]) -> str:
    """Return the error text for an unknown key, with the closest known one."""
    near = get_close_matches(key, known, n=1)
    return f"{place} is not a setting of Headwater" + (f"; did you mean {near[0]}?" if near else "")


def _convert(setting: Field[Any], value: Any, place: str) -> Any:
    """Return the value of a flag, a variable or a file as the setting's type."""
    kind = str(setting.type).removesuffix(" | None")
    try:
        if kind == "bool":
            return _truth(value)
        if isinstance(value, bool) or not isinstance(value, str | int | float | Path):
            raise ValueError
        if kind == "int":
            return _whole_number(setting, value)
        if kind == "float":
            return float(str(value))
        if isinstance(value, int | float):
            raise ValueError
        return Path(value).expanduser() if kind == "Path" else str(value)
    except (ValueError, TypeError):
        wanted = {
            "int": "a whole number",
            "float": "a number",
            "Path": "a path",
            "str": "text",
            "bool": "true or false",
        }[kind]
        if setting.name.endswith("_bytes"):
            wanted += " of bytes, such as 67108864 or 64MiB"
        raise SettingsError(f"{place} must be {wanted}, not {shown(setting, value)!r}") from None


def _truth(value: Any) -> bool:
    """Return a boolean."""
    said = {"true": True, "false": False}.get(str(value).lower())
    if said is None:
        raise ValueError
    return said


def _whole_number(setting: Field[Any], value: str | int | float | Path) -> int:
    """Return an integer; a size may have a unit."""
    if isinstance(value, int):
        return value
    if setting.name.endswith("_bytes") and (size := _SIZE.fullmatch(str(value).strip())):
        return int(size[1]) * _SIZE_UNITS[size[2]]
    return int(str(value))
