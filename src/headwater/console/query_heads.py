"""Which site serves the stream of a table, so that a query also sees what is not in the table yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from headwater.client.connection_settings import ConnectionSettings
from headwater.console.sampler import SampledSite
from headwater.model.times import parse_time

MOST_REMOVED = 50_000
"""A stream with more removed sequences would be read through the API as a whole, which takes too long."""
NOT_SERVED = "no site that is shown serves this stream"


def heads_of(sites: Iterable[SampledSite], sql: str) -> list[dict[str, Any]]:
    """Return the streams of sites that a query may name, and how to read them, as JSON values."""
    text = sql.lower()
    found = []
    for site in sites:
        options = reading_options(site.site.connection)
        for name, info in site.snapshot.streams.items():
            if name.lower() in text:
                state = info["state"]
                found.append(
                    {
                        "stream": name,
                        "created_ns": parse_time(str(info.get("created") or "")) or 0,
                        "last_seq": int(state.get("last_seq") or 0),
                        "removed": int(state.get("num_deleted") or 0),
                        "options": options,
                    }
                )
    return found


def reading_options(connection: ConnectionSettings) -> dict[str, str]:
    """Return the options with which a stream is read; empty if its connection has others."""
    if connection.jwt or connection.tls_first or connection.server.startswith(("ws:", "wss:")):
        return {}
    urls = [urlsplit(url if "://" in url else f"nats://{url}") for url in connection.server.split(",")]
    server = ",".join(f"{url.scheme}://{url.netloc.rpartition('@')[2]}" for url in urls)
    user, password = unquote(urls[0].username or ""), urls[0].password
    given = {
        "server": server,
        "apiPrefix": connection.prefix,
        "user": connection.user or (user if password is not None else ""),
        "password": connection.password or unquote(password or ""),
        "token": connection.token or (user if password is None else ""),
        "creds": connection.creds,
        "nkey": connection.nkey,
        "tlsCa": connection.tls_ca,
        "tlsCert": connection.tls_cert,
        "tlsKey": connection.tls_key,
    }
    return {name: value for name, value in given.items() if value}


def head_of(
    heads: Sequence[Mapping[str, Any]], stream: str, created_ns: int | None
) -> tuple[Mapping[str, Any] | None, str]:
    """Return the site's stream that a table belongs to, or why its end is not read.

    The time at which a stream was created identifies it. In a bucket that is not known; then the name must be
    the only one.
    """
    same = [head for head in heads if head["stream"] == stream]
    if created_ns is not None:
        same = [head for head in same if head["created_ns"] == created_ns]
    if len(same) != 1:
        return None, NOT_SERVED if not same else "several sites have a stream of this name"
    if not same[0]["options"]:
        return same[0], "its site is connected in a way that queries do not know"
    if same[0]["removed"] > MOST_REMOVED:
        return same[0], "it has too many removed messages to be read from its server"
    return same[0], ""
