"""The client of the console keeps headers as they were sent."""

from __future__ import annotations

import nats

from headwater.client.connection_settings import ConnectionSettings
from headwater.client.jetstream_api import connected_client
from headwater.console.raw_header_client import RawHeaderClient, RawHeaders
from servers import nats_server


async def test_headers_have_the_bytes_that_they_came_from() -> None:
    async with nats_server() as server:
        client = await connected_client(ConnectionSettings(server=server.client_url), kind=RawHeaderClient)
        other = await nats.connect(server.client_url)
        inbox = await client.subscribe("a")
        await client.publish("a", b"0")
        assert (await inbox.next_msg(60)).data == b"0", "the server knows the subscription"
        await other.publish("a", b"1", headers={"kind": "x"})
        await other.publish("a", b"2")
        first, second = await inbox.next_msg(60), await inbox.next_msg(60)
        await other.close()
        await client.close()
    assert isinstance(first.headers, RawHeaders)
    assert (first.headers, first.headers.raw) == ({"kind": "x"}, b"NATS/1.0\r\nkind: x\r\n\r\n")
    assert second.headers is None
