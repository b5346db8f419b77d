"""The settings file that an engine writes to its store for replicators and their tasks.

It contains the address and credentials of each seat's nats-server and of the bucket with the tables, so that
no secret is in a plan, an argument, an environment variable or anything that Spark stores. Only the engine's
own user may read it.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from headwater import private_file
from headwater.bus.options import ConnectOptions
from headwater.errors import BusError, SettingsError
from headwater.loaded_settings import load
from headwater.objects.address import BucketAddress, StaticCredentials
from headwater.settings import Settings, seat_rows

NAME = "replicator.toml"
PIPELINES = "pipelines.toml"
"""The same for the runner of pipelines, without the bucket and with a secret of its own."""
HERE = "HEADWATER_EXECUTOR_CONFIG"
"""The variable in which a host names its copy of the file, or a folder of such files."""


def secret_for(settings: Settings) -> str:
    """Return the secret that an engine shares with its replicators in this run."""
    return settings.replication_secret or secrets.token_hex(32)


def pipelines_secret(secret: str) -> str:
    """Return the secret of the runner of pipelines, from which that of replicators cannot be found."""
    return hmac.digest(secret.encode(), b"pipelines", "sha256").hex()


def write(path: Path, settings: Settings, secret: str, *, has_tables: bool = True) -> None:
    """Return once the file contains the credentials of each seat, readable by its own user only."""
    text = "# Written by headwater at each start, for its replicators; it contains secrets.\n"
    text += f"replication_secret = {_quoted(secret)}\n"
    text += _tables(settings) if has_tables else ""
    text += "".join(f"\n[[seat]]\n{_keys(seat)}" for seat in settings.seats) or _keys(settings)
    private_file.write(path, text)


def seats_of(settings: Settings) -> dict[str, Settings]:
    """Return the seats of an engine by their names in plans; the only account has an empty name."""
    return {seat.streams_folder: seat for seat in settings.seats} or {"": settings}


class SecretFile:
    """The secret of an engine in a settings file, read again when the file has changed."""

    def __init__(self, path: Path, secret: str = "") -> None:
        self._path = path
        self._known = secret.encode()
        self._stamp: tuple[int, int, int] | None = None
        """Identifies the version of the file that the secret was read from."""

    def __call__(self) -> bytes:
        """Return the secret; SettingsError if the file cannot be read."""
        try:
            status = self._path.stat()
        except OSError as error:
            raise SettingsError(f"cannot read the engine's secret: {error}") from None
        stamp = status.st_ino, status.st_mtime_ns, status.st_size
        if stamp != self._stamp:
            found = load(config=self._path).settings
            is_own = found.replication_secret is not None or found.store is None
            if not is_own and found.store is not None:
                # The settings file of an engine names its store, which contains the file for replicators.
                found = load(config=found.store / NAME).settings
            self._known = (found.replication_secret or "").encode()
            # That other file is rewritten at each start, which this file's stamp does not show.
            self._stamp = stamp if is_own else None
        return self._known


def connect_options(path: str, folder: str, name: str) -> ConnectOptions:
    """Return the connect options in the file for the seat with this folder of the store."""
    here = path_here(Path(path), os.environ)
    try:
        seats = seats_of(load(config=here).settings)
    except SettingsError as error:
        raise BusError(f"{error}; transfers need its credentials") from None
    for seat in seats.values():
        if seat.streams_folder == folder and seat.nats_url is not None:
            return ConnectOptions.of(seat, seat.nats_url, name)
    raise BusError(f"{here} has no seat with the folder {folder}, which transfers need to connect")


def tables_of(settings: Settings) -> BucketAddress | None:
    """Return the address of the tables in these settings, with the credentials that are there."""
    if settings.tables is None:
        return None
    key, secret = settings.tables_access_key_id, settings.tables_secret_access_key
    credentials = StaticCredentials(key, secret, settings.tables_session_token) if key and secret else None
    return BucketAddress(
        settings.tables.rstrip("/"), settings.tables_endpoint, settings.tables_region, credentials
    )


def bucket_address(path: str, address: BucketAddress) -> BucketAddress:
    """Return an address with the credentials in the file, or without if tasks find them as usual."""
    here = path_here(Path(path), os.environ)
    found = tables_of(load(config=here).settings)
    return address if found is None else replace(address, credentials=found.credentials)


def path_here(path: Path, environ: Mapping[str, str]) -> Path:
    """Return the path of a store's file on this host: where the engine wrote it, unless overridden.

    In a folder of files it is named after the store: for `/lake/replicator.toml` it is `lake.toml`.
    """
    said = environ.get(HERE)
    if not said:
        return path
    return Path(said, f"{path.parent.name}.toml") if Path(said).is_dir() else Path(said)


def _tables(settings: Settings) -> str:
    """Return the bucket and its credentials as TOML, nothing if tables are in the store."""
    address = tables_of(settings)
    if address is None:
        return ""
    keys = address.static_credentials()
    said = {
        "tables": address.url,
        "tables_endpoint": address.endpoint,
        "tables_region": address.region,
        "tables_access_key_id": keys.access_key_id if keys else None,
        "tables_secret_access_key": keys.secret_access_key if keys else None,
        "tables_session_token": keys.session_token if keys else None,
    }
    return "".join(f"{name} = {_quoted(value)}\n" for name, value in said.items() if value)


def _keys(seat: Settings) -> str:
    """Return a seat's own settings as TOML, with absolute paths."""
    lines = []
    for row in seat_rows():
        value = getattr(seat, row.name)
        if value is None or (value == row.default and row.name != "account"):
            continue
        shown = str(value.absolute()) if isinstance(value, Path) else value
        lines.append(f"{row.name} = {_quoted(shown) if isinstance(shown, str) else json.dumps(shown)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    # TOML's basic strings are JSON's, except that DEL must be escaped and surrogates are not allowed.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
