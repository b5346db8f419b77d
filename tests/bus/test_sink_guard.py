"""A sink that fails loses only its own messages."""

from __future__ import annotations

import logging

import pytest

from headwater.bus.connection import Connection
from headwater.bus.options import ConnectOptions
from headwater.bus.sink_guard import flush_guarded
from headwater.wire.frames import Frame
from servers import nats_server
from sinks import KeptSink


class FailingSink:
    """Fails on whatever it gets."""

    def __init__(self) -> None:
        self.items: list[Frame] = []

    def flush(self) -> None:
        raise OverflowError("too large")


def test_what_a_sink_fails_on_is_dropped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    sink = FailingSink()
    sink.items.append((b"a", b"", b"", b""))
    with caplog.at_level(logging.ERROR):
        flush_guarded(sink)
    assert sink.items == []
    assert "FailingSink failed to process its messages" in caplog.text


async def test_a_sink_that_fails_does_not_cut_the_connection_that_others_share() -> None:
    lost: list[str] = []
    async with nats_server() as server:
        connection = Connection(ConnectOptions((server.client_url,)), on_disconnected=lost.append)
        await connection.connect()
        kept = KeptSink()
        connection.subscribe(b"bad", FailingSink())
        connection.subscribe(b"good", kept)
        for _ in range(3):
            connection.publish(b"bad", b"x")
            connection.publish(b"good", b"y")
        assert [frame[3] for frame in await kept.got(3)] == [b"y"] * 3
        await connection.flush()
        assert not lost
        await connection.close()
