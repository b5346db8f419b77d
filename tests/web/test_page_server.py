"""Tests of web.page_server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from http.client import HTTPConnection, HTTPResponse

import pytest

from headwater.web.page_server import Answer, PageServer, Query


async def echo(query: Query) -> Answer:
    return 200, "application/json", json.dumps(dict(query)).encode()


async def broken(query: Query) -> Answer:
    raise ValueError("no")


@pytest.fixture
async def port() -> AsyncIterator[int]:
    server = PageServer({"/": echo, "/a/echo": echo, "/broken": broken})
    yield await server.start("127.0.0.1", 0)
    await server.stop()


async def asked(port: int, *targets: str, method: str = "GET") -> list[tuple[int, bytes]]:
    """Return the answers to requests on one connection."""

    def ask() -> list[tuple[int, bytes]]:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        answers = []
        for target in targets:
            connection.request(method, target)
            response: HTTPResponse = connection.getresponse()
            answers.append((response.status, response.read()))
        connection.close()
        return answers

    return await asyncio.to_thread(ask)


async def test_pages_are_found_by_their_paths_with_their_queries(port: int) -> None:
    answers = await asked(port, "/a/echo?x=1&y=a%20b", "/a/echo/", "/", "/nowhere")
    assert answers[:3] == [(200, b'{"x": "1", "y": "a b"}'), (200, b"{}"), (200, b"{}")]
    assert answers[3][0] == 404


async def test_a_page_that_fails_says_so_and_the_next_is_served(port: int) -> None:
    assert [status for status, _ in await asked(port, "/broken", "/")] == [500, 200]


async def test_only_reading_is_served(port: int) -> None:
    assert await asked(port, "/", method="HEAD") == [(200, b"")]
    assert (await asked(port, "/", method="POST"))[0][0] == 405


async def test_what_is_no_http_is_hung_up_on(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"this is no request\r\n\r\n")
    assert await asyncio.wait_for(reader.read(), 60) == b""
    writer.close()
    assert (await asked(port, "/"))[0][0] == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8222", 200),
        ("localhost", 200),
        ("[::1]:8222", 200),
        ("rebound.example:8222", 421),
        ("127.0.0.1.rebound.example", 421),
        ("localhost.rebound.example", 421),
        ("[", 421),
    ],
)
async def test_a_foreign_name_that_resolves_to_loopback_gets_no_page(
    port: int, host: str, status: int
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert (await reader.readline()).split()[1] == b"%d" % status
    writer.close()


async def test_pages_on_other_addresses_are_served_under_any_name() -> None:
    server = PageServer({"/": echo})
    port = await server.start("0.0.0.0", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: engine.example\r\nConnection: close\r\n\r\n")
    assert (await reader.readline()).split()[1] == b"200"
    writer.close()
    await server.stop()


async def test_a_target_that_is_no_address_is_refused(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET //[ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert (await reader.readline()).split()[1] == b"400"
    writer.close()
