"""A client encrypts when either side requires it, and a server is recognized by its greeting."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from headwater.bus import handshake
from headwater.bus.handshake import client_hello, greets, needs_tls, tls_name
from headwater.bus.options import Address, ConnectOptions
from headwater.errors import BusError
from servers import nats_server

PLAIN = Address.parse("nats://a.example:4222")
ENCRYPTED = Address.parse("tls://a.example:4222")
OPTIONS = ConnectOptions(servers=("nats://a.example:4222",), name="n")


def test_tls_is_used_when_either_side_requires_it() -> None:
    assert not needs_tls({}, OPTIONS, PLAIN)
    assert not needs_tls({"tls_available": True}, OPTIONS, PLAIN)
    assert needs_tls({"tls_required": True}, OPTIONS, PLAIN)
    assert needs_tls({"tls_available": True}, OPTIONS, ENCRYPTED)


def test_a_server_without_the_tls_that_we_require_is_refused() -> None:
    with pytest.raises(BusError, match=r"a\.example:4222 offers no TLS"):
        needs_tls({}, OPTIONS, ENCRYPTED)


def test_the_certificate_s_name_is_the_host_unless_another_is_set() -> None:
    assert tls_name(OPTIONS, PLAIN) == "a.example"
    assert tls_name(replace(OPTIONS, tls_hostname="b.example"), PLAIN) == "b.example"


def test_a_client_identifies_itself_and_requests_an_answer() -> None:
    said = client_hello({}, replace(OPTIONS, user="me", password="p"), PLAIN)
    connect, ping, _ = said.split(b"\r\n")
    fields = json.loads(connect.removeprefix(b"CONNECT "))
    assert (fields["name"], fields["user"], fields["pass"], fields["headers"]) == ("n", "me", "p", True)
    assert ping == b"PING"


async def test_a_server_greets_and_a_closed_port_does_not() -> None:
    async with nats_server() as server:
        assert await greets("127.0.0.1", server.port)
    assert not await greets("127.0.0.1", server.port)


async def test_a_silent_server_does_not_greet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "GREETING_S", 0.05)
    held = []
    silent = await asyncio.start_server(lambda _, writer: held.append(writer), "127.0.0.1", 0)
    assert not await greets("127.0.0.1", silent.sockets[0].getsockname()[1])
    for writer in held:
        writer.close()
    silent.close()
