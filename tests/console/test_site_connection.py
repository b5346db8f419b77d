"""The connection to a site: opened on use, opened again, shared."""

from __future__ import annotations

import pytest

from headwater.client.connection_settings import ConnectionSettings
from headwater.client.jetstream_api import UnreachableError
from headwater.console.site_connection import SiteConnection
from headwater.console.watched_site import WatchedSite
from servers import nats_server


async def test_it_is_shared_and_opened_again_after_a_close() -> None:
    async with nats_server(jetstream=True) as server:
        connection = SiteConnection(WatchedSite("a", ConnectionSettings(server=server.client_url)))
        first, second = await connection.api(), await connection.api()
        assert first.nats is second.nats
        await connection.close()
        assert (await connection.api()).nats is not first.nats
        await connection.close()


async def test_a_site_that_does_not_answer_is_an_error() -> None:
    connection = SiteConnection(WatchedSite("a", ConnectionSettings(server="nats://127.0.0.1:1")))
    with pytest.raises(UnreachableError):
        await connection.api()
    await connection.close()
