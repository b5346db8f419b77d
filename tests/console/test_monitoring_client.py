"""The pages of an engine over HTTP: read, missing, not an engine's."""

from __future__ import annotations

import asyncio

import pytest

from headwater.console.monitoring_client import MonitoringClient
from headwater.errors import Error
from headwater.web.page_server import Answer, PageServer, Query


async def test_metrics_and_readiness_are_read() -> None:
    async def metrics(query: Query) -> Answer:
        return 200, "text/plain", b"up 1\n"

    async def readiness(query: Query) -> Answer:
        return 503, "application/json", b'{"ready": false}'

    server = PageServer({"/metrics": metrics, "/readyz": readiness})
    port = await server.start("127.0.0.1", 0)
    client = MonitoringClient(f"http://127.0.0.1:{port}/")
    assert (await asyncio.to_thread(client.metrics)).value("up") == 1
    assert await asyncio.to_thread(client.readiness) == {"ready": False}
    assert await asyncio.to_thread(client.json, "/metrics") == {}
    await server.stop()


async def test_a_server_without_metrics_is_an_error_with_a_remedy() -> None:
    server = PageServer({})
    port = await server.start("127.0.0.1", 0)
    with pytest.raises(Error, match=r"answers 404: pass the address of an engine's --http-port"):
        await asyncio.to_thread(MonitoringClient(f"http://127.0.0.1:{port}").metrics)
    await server.stop()


def test_an_address_where_nothing_listens_is_an_error() -> None:
    with pytest.raises(Error, match="cannot read"):
        MonitoringClient("http://127.0.0.1:1").metrics()


@pytest.mark.parametrize("url", ["127.0.0.1:8222", "file:///etc/passwd", "ftp://x", ""])
def test_only_addresses_of_http_are_accepted(url: str) -> None:
    with pytest.raises(Error, match="is invalid"):
        MonitoringClient(url)
