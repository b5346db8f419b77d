"""Publishes reach their stream and are answered; reading waits for the disk when too much is under way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from headwater.bus.connection import Connection
from headwater.bus.options import ConnectOptions
from headwater.ingest import ingest as ingest_module
from headwater.ingest.ingest import Ingest
from headwater.stream.stream import Stream
from servers import nats_server
from stream.streams import Workshop, config_of, everything


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Connection, Connection]]:
    """Yield the engine's connection and a client's, to one server."""
    async with nats_server() as server:
        ours, client = (Connection(ConnectOptions(servers=(server.client_url,))) for _ in range(2))
        await ours.connect()
        await client.connect()
        yield ours, client
        await client.close()
        await ours.close()


@asynccontextmanager
async def taken_in(
    directory: Path, connection: Connection, *subjects: str
) -> AsyncIterator[tuple[Ingest, Stream]]:
    """Yield a stream whose publishes are taken."""
    workshop = Workshop(directory)
    workshop.services = replace(workshop.services, send=connection.write)
    async with workshop.stream(config_of(subjects=subjects)) as stream:
        ingest = Ingest(connection)
        ingest.on_opened(stream)
        await connection.flush()
        yield ingest, stream
    workshop.close()


async def test_a_publish_is_stored_and_answered(tmp_path: Path) -> None:
    async with connected() as (ours, client), taken_in(tmp_path, ours, "a.*", "b") as (_, stream):
        for seq, subject in enumerate((b"a.1", b"b", b"a.2"), 1):
            answer = await client.request(subject, b"data", 10, b"NATS/1.0\r\nK: V\r\n\r\n")
            assert json.loads(answer[3]) == {"stream": "S", "seq": seq}
        stored = await everything(stream)
        assert [(m.subject, m.headers, m.data) for m in stored] == [
            (subject, b"NATS/1.0\r\nK: V\r\n\r\n", b"data") for subject in (b"a.1", b"b", b"a.2")
        ]


async def test_subscriptions_follow_the_config(tmp_path: Path) -> None:
    async with connected() as (ours, client), taken_in(tmp_path, ours, "a", "b") as (ingest, stream):
        old = stream.config
        await stream.reconfigure(msgspec.structs.replace(old, subjects=("b", "c")))
        ingest.on_changed(stream, old)
        await ours.flush()
        for subject in (b"a", b"b", b"c"):
            client.publish(subject, subject)
        await client.flush()
        await ours.flush()
        assert [message.data for message in await everything(stream)] == [b"b", b"c"]
        ingest.on_closed(stream)
        await ours.flush()
        client.publish(b"b", b"late")
        await client.flush()
        await ours.flush()
        assert (await stream.state()).messages == 2


async def test_stopping_answers_what_was_taken(tmp_path: Path) -> None:
    async with connected() as (ours, client), taken_in(tmp_path, ours, "a") as (ingest, stream):
        for number in range(500):
            client.publish(b"a", b"%d" % number)
        await client.flush()
        await ingest.stop()
        assert stream.backlog_bytes == 0
        assert (await stream.state()).messages == 500


async def test_nothing_more_is_read_until_a_large_backlog_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_module, "MAX_BACKLOG_BYTES", 10_000)
    async with connected() as (ours, client), taken_in(tmp_path, ours, "a") as (_, stream):
        paused: list[bool] = []
        pause, resume = ours.pause_reading, ours.resume_reading

        def note(is_paused: bool, act: Callable[[], None]) -> None:
            paused.append(is_paused)
            act()

        monkeypatch.setattr(ours, "pause_reading", lambda: note(True, pause))
        monkeypatch.setattr(ours, "resume_reading", lambda: note(False, resume))
        for number in range(300):
            client.publish(b"a", b"%05d" % number * 200)
            if number % 20 == 0:
                await client.flush()
        await client.flush()
        while (await stream.state()).messages < 300:
            await asyncio.sleep(0.001)
        while paused[-1]:
            await asyncio.sleep(0.001)
        assert True in paused
        assert paused == [True, False] * (len(paused) // 2)
        assert [m.data[:5] for m in await everything(stream)] == [b"%05d" % n for n in range(300)]
