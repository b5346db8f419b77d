"""The client for code without an event loop, also inside a running loop."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import headwater
from headwater import CatchUpError, SyncClient
from servers import nats_server


def test_every_method_of_the_async_client_has_its_counterpart() -> None:
    asynchronous = {name for name in vars(headwater.AsyncClient) if not name.startswith("_")}
    assert {name for name in vars(SyncClient) if not name.startswith("_")} == asynchronous - {"nats"}


async def test_it_works_inside_a_running_loop_and_ends_its_thread(tmp_path: Path) -> None:
    async with nats_server(jetstream=True) as server:
        async with headwater.connect(server.client_url) as other:
            js = other.nats.jetstream()
            await js.add_stream(name="S", subjects=["s"])
        with headwater.connect(server.client_url, timeout=60) as client:
            assert client.stream_names() == ["S"]
            assert [stream.name for stream in client.streams()] == ["S"]
            assert client.stream("S").messages == 0
            assert client.offline() == {}
            with pytest.raises(headwater.Error, match="neither sources"):
                client.catch_up("S", within=1)
        client.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "headwater client"]


def test_a_server_that_is_not_there_is_an_error_and_leaves_no_thread() -> None:
    with pytest.raises(headwater.Error, match="connection refused"):
        with headwater.connect("nats://127.0.0.1:1"):
            pass
    assert not [thread for thread in threading.enumerate() if thread.name == "headwater client"]


def test_a_wait_that_fails_raises_here(tmp_path: Path) -> None:
    with headwater.serve(tmp_path) as engine, engine.connect() as client:
        with pytest.raises(headwater.Error, match="stream not found"):
            client.catch_up("NOPE")
    assert issubclass(CatchUpError, headwater.Error)
