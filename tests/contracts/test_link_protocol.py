"""What holds for both protocols of a link to nats-server, the client's and the leaf's."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from headwater.bus.connection import Connection
from headwater.bus.leaf import LeafConnection
from headwater.bus.options import Address, ConnectOptions
from headwater.bus.reconnector import LinkProtocol

OPTIONS = ConnectOptions(servers=("nats://h:4222",), name="n", user="me", password="hush")
ADDRESS = Address.parse("nats://h:4222")
Made = Callable[[ConnectOptions], LinkProtocol]


@pytest.fixture(params=[Connection, LeafConnection])
def protocol(request: pytest.FixtureRequest) -> LinkProtocol:
    make: Made = request.param
    return make(OPTIONS)


async def test_the_handshake_identifies_the_client_and_requests_an_answer(protocol: LinkProtocol) -> None:
    connect, ping, rest = protocol.hello({}, ADDRESS).split(b"\r\n")
    fields = json.loads(connect.removeprefix(b"CONNECT "))
    assert (fields["user"], fields["pass"], fields["headers"]) == ("me", "hush", True)
    assert (ping, rest) == (b"PING", b"")


async def test_control_lines_are_returned_in_order(protocol: LinkProtocol) -> None:
    events = protocol.parse(b"PING\r\nPONG\r\n-ERR 'no'\r\n+OK\r\n")
    assert [verb for verb, _ in events] == [b"PING", b"PONG", b"-ERR", b"+OK"]


async def test_an_incomplete_frame_is_completed_by_the_next_read(protocol: LinkProtocol) -> None:
    assert protocol.parse(b"PI") == []
    assert [verb for verb, _ in protocol.parse(b"NG\r\n")] == [b"PING"]


async def test_a_new_link_begins_without_the_incomplete_frame_of_the_last_one(protocol: LinkProtocol) -> None:
    assert protocol.parse(b"-ERR 'half of ") == []
    protocol.begin()
    assert [verb for verb, _ in protocol.parse(b"PONG\r\n")] == [b"PONG"]


async def test_the_lines_of_config_name_the_port_and_no_secret(protocol: LinkProtocol) -> None:
    assert "4222" in protocol.listening(ADDRESS)
    assert "me" in protocol.admission(ADDRESS)
    assert "hush" not in protocol.admission(ADDRESS)
