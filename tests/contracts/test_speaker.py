"""What holds for both protocols of a link to nats-server, the client's and the leaf's."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from headwater.bus.connection import Connection
from headwater.bus.leaf import LeafConnection
from headwater.bus.lifeline import Speaker
from headwater.bus.options import Address, ConnectOptions

OPTIONS = ConnectOptions(servers=("nats://h:4222",), name="n", user="me", password="hush")
ADDRESS = Address.parse("nats://h:4222")
Made = Callable[[ConnectOptions], Speaker]


@pytest.fixture(params=[Connection, LeafConnection])
def speaker(request: pytest.FixtureRequest) -> Speaker:
    make: Made = request.param
    return make(OPTIONS)


async def test_it_says_who_it_is_and_asks_for_an_answer(speaker: Speaker) -> None:
    connect, ping, rest = speaker.hello({}, ADDRESS).split(b"\r\n")
    fields = json.loads(connect.removeprefix(b"CONNECT "))
    assert (fields["user"], fields["pass"], fields["headers"]) == ("me", "hush", True)
    assert (ping, rest) == (b"PING", b"")


async def test_control_lines_are_returned_in_order(speaker: Speaker) -> None:
    events = speaker.parse(b"PING\r\nPONG\r\n-ERR 'no'\r\n+OK\r\n")
    assert [verb for verb, _ in events] == [b"PING", b"PONG", b"-ERR", b"+OK"]


async def test_an_incomplete_frame_is_completed_by_the_next_read(speaker: Speaker) -> None:
    assert speaker.parse(b"PI") == []
    assert [verb for verb, _ in speaker.parse(b"NG\r\n")] == [b"PING"]


async def test_a_new_link_begins_without_the_incomplete_frame_of_the_last_one(speaker: Speaker) -> None:
    assert speaker.parse(b"-ERR 'half of ") == []
    speaker.begin()
    assert [verb for verb, _ in speaker.parse(b"PONG\r\n")] == [b"PONG"]


async def test_the_lines_of_config_name_the_port_and_no_secret(speaker: Speaker) -> None:
    assert "4222" in speaker.listening(ADDRESS)
    assert "me" in speaker.admission(ADDRESS)
    assert "hush" not in speaker.admission(ADDRESS)
