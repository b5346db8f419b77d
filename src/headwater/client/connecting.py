"""`headwater.connect`: a client that is connected when it is awaited or entered."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from types import TracebackType
from typing import Any

from headwater.client.async_client import AsyncClient, open_client
from headwater.client.connection_settings import DEFAULT_SERVER, ConnectionSettings
from headwater.client.sync_client import SyncClient


class PendingClient:
    """A client that is not connected yet.

    `async with` gives an `AsyncClient` and closes it, `await` gives one that you close, and `with` gives a
    `SyncClient`.
    """

    def __init__(self, connection: ConnectionSettings) -> None:
        self._connection = connection
        self._async: AsyncClient | None = None
        """Set inside `async with`."""
        self._sync: SyncClient | None = None
        """Set inside `with`."""

    def __await__(self) -> Generator[Any, None, AsyncClient]:
        return open_client(self._connection).__await__()

    async def __aenter__(self) -> AsyncClient:
        self._async = await open_client(self._connection)
        return self._async

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._async is not None
        await self._async.close()

    def __enter__(self) -> SyncClient:
        self._sync = SyncClient(self._connection)
        return self._sync

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._sync is not None
        self._sync.close()


def connect(
    url: str = DEFAULT_SERVER,
    *,
    domain: str = "",
    api_prefix: str = "",
    user: str = "",
    password: str = "",
    token: str = "",
    creds: str | Path = "",
    nkey: str | Path = "",
    tls_ca: str | Path = "",
    tls_cert: str | Path = "",
    tls_key: str | Path = "",
    timeout: float = 5.0,
) -> PendingClient:
    """Return a client of the streams that are served at an address.

    Use it as `async with headwater.connect(url) as client`, as `client = await headwater.connect(url)`, or
    without asyncio as `with headwater.connect(url) as client`.

    `url` is one address of a nats-server, or several separated by commas. `domain` or `api_prefix` selects a
    JetStream domain. The credentials are a user and a password, a token, a file of credentials or a file with
    the seed of an nkey. `timeout` is how many seconds each answer may take.

    The client also works with a plain nats-server, which reports less about upstreams: see `UpstreamInfo`.
    """
    return PendingClient(
        ConnectionSettings(
            server=url,
            domain=domain,
            api_prefix=api_prefix,
            user=user,
            password=password,
            token=token,
            creds=str(creds),
            nkey=str(nkey),
            tls_ca=str(tls_ca),
            tls_cert=str(tls_cert),
            tls_key=str(tls_key),
            timeout=timeout,
        )
    )
