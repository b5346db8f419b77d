"""Requests to a JetStream API: answers, pages, errors, and servers that are not there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from nats.aio.client import Client

from headwater.client.connection_settings import ConnectionSettings
from headwater.client.jetstream_api import (
    JetStreamApi,
    Json,
    RequestRefusedError,
    UnreachableError,
    answer_of,
    connected_client,
)
from headwater.errors import Error
from servers import nats_server


class Pages(JetStreamApi):
    """An API that answers a list of seven names, three at a time."""

    def __init__(self) -> None:
        super().__init__(Client(), "$JS.API")
        self.asked: list[Any] = []

    async def request(
        self, endpoint: str, body: Mapping[str, Any] | None = None, *, wait: float | None = None
    ) -> Json:
        """Answer one page."""
        self.asked.append(body)
        offset = (body or {})["offset"]
        names = [f"S{i}" for i in range(7)][offset : offset + 3]
        return {"total": 7, "offset": offset, "limit": 3, "streams": names or None}


async def test_all_pages_of_a_list_are_asked_for() -> None:
    api = Pages()
    assert await api.stream_names("orders.>") == [f"S{i}" for i in range(7)]
    assert api.asked == [{"subject": "orders.>", "offset": offset} for offset in (0, 3, 6)]


def test_an_answer_that_is_no_json_is_refused() -> None:
    with pytest.raises(Error, match="is not JSON"):
        answer_of(b"hello", "INFO")


def test_an_error_of_the_api_keeps_its_numbers() -> None:
    body = b'{"error":{"code":404,"err_code":10059,"description":"stream not found"}}'
    with pytest.raises(RequestRefusedError, match=r"^stream not found \(10059\)$") as caught:
        answer_of(body, "STREAM.INFO.X")
    assert (caught.value.code, caught.value.err_code) == (404, 10059)


async def test_a_second_server_is_tried_when_nothing_listens_at_the_first() -> None:
    async with nats_server() as server:
        client = await connected_client(ConnectionSettings(server=f"nats://127.0.0.1:1,{server.client_url}"))
        assert client.is_connected
        await client.close()


async def test_errors_name_no_flags_of_the_command_line() -> None:
    with pytest.raises(UnreachableError, match="connection refused") as caught:
        await connected_client(ConnectionSettings(server="nats://127.0.0.1:1"))
    assert "--server" not in str(caught.value)
    async with nats_server("authorization { user: a, password: b }") as server:
        with pytest.raises(UnreachableError, match="refused the credentials: pass user and password"):
            await connected_client(ConnectionSettings(server=server.client_url))
    async with nats_server() as server:
        client = await connected_client(ConnectionSettings(server=server.client_url))
        with pytest.raises(UnreachableError, match=r"no responders on \$JS.lake.API.INFO: select a domain,"):
            await JetStreamApi(client, "$JS.lake.API").request("INFO")
        await client.close()


async def test_a_cancellation_that_comes_with_an_answer_is_not_forgotten() -> None:
    asked = asyncio.Event()

    class Forgetful:
        """Answers although the question was given up."""

        async def request(self, subject: str, payload: bytes, **options: object) -> str:
            asked.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass
            return "an answer"

    api = JetStreamApi(Forgetful(), "$JS.API", 60.0)  # type: ignore[arg-type]
    asking = asyncio.create_task(api.ask("subject"))
    await asked.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
