"""The streams that a command queries: of a server, or of a store's tables."""

from __future__ import annotations

import json
from pathlib import Path

from headwater.cli.client import Caller
from headwater.client.connection_settings import ConnectionSettings
from headwater.console.query_tables import table_path, tables_of_store
from headwater.control.declaration import read_declaration
from headwater.disk import RealDisk
from headwater.errors import DiskError, SettingsError
from headwater.lake.stream_sql import FindStream, StreamQuerySource
from headwater.model.payload_schema import schema_in
from headwater.model.sealed import SealError


def queried_streams(
    caller: Caller, store: str, account: str, live: bool, bounds: dict[str, str]
) -> FindStream:
    """Return what finds a stream by its name; the bounds are options of its read.

    Without a store, messages are read through the server. With one, its tables are read, and with `live` also
    what is not in them yet.
    """
    return _in_store(caller, store, account, live, bounds) if store else _on_server(caller, bounds)


def _on_server(caller: Caller, bounds: dict[str, str]) -> FindStream:
    names = caller.run(lambda session: session.stream_names())
    options = {**_connection(caller.connection), **bounds}

    def find(name: str) -> StreamQuerySource | None:
        stream = table_path(name, {each: each for each in names})
        if not stream:
            return None
        info = caller.run(lambda session: session.stream_info(stream))
        return StreamQuerySource({**options, "stream": stream}, schema_in(info["config"].get("metadata")))

    return find


def _in_store(caller: Caller, store: str, account: str, live: bool, bounds: dict[str, str]) -> FindStream:
    is_local = "://" not in store
    if is_local and not Path(store).is_dir():
        raise SettingsError(f"there is no store in {store}")
    # A bucket is not listed: the names are those of the server, if it is asked at all.
    names = caller.run(lambda session: session.stream_names()) if not is_local else ()
    tables = tables_of_store(store, account, list(names))
    options = {**(_connection(caller.connection) if live else {}), **bounds}

    def find(name: str) -> StreamQuerySource | None:
        path = table_path(name, tables)
        if not path:
            return None
        return StreamQuerySource({**options, "path": path}, _declared_schema(path) if is_local else None)

    return find


def _declared_schema(path: str) -> object:
    """Return the schema in a stream's declaration, next to its table."""
    try:
        declared = read_declaration(RealDisk(), Path(path))
    except (SealError, DiskError):
        return None
    return schema_in(json.loads(declared.config).get("metadata")) if declared is not None else None


def _connection(connection: ConnectionSettings) -> dict[str, str]:
    """Return a connection as options of a read."""
    if connection.jwt:
        raise SettingsError("a query cannot use --jwt and --seed: pass --creds FILE")
    options = {
        "server": connection.server,
        "user": connection.user,
        "password": connection.password,
        "token": connection.token,
        "creds": connection.creds,
        "nkey": connection.nkey,
        "tlsCa": connection.tls_ca,
        "tlsCert": connection.tls_cert,
        "tlsKey": connection.tls_key,
        "apiPrefix": connection.prefix,
    }
    return {name: value for name, value in options.items() if value}
