"""Streams for tests: opened on any disk with a driven clock, their answers collected."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from headwater.clock import DrivenClock
from headwater.disk import Disk, RealDisk
from headwater.model import headers as header_block
from headwater.model.message import Message
from headwater.model.stream import StreamConfig
from headwater.settings import Settings
from headwater.stream.services import Services
from headwater.stream.stream import Stream
from headwater.stream.view import RunCache

SECOND = 1_000_000_000


class Answers:
    """Keeps what a stream sent to its publishers."""

    def __init__(self) -> None:
        self.frames = bytearray()

    def __call__(self, frames: bytes) -> None:
        self.frames += frames

    def take(self) -> dict[bytes, dict[str, Any]]:
        """Return the answers so far, by reply subject, and forget them."""
        answers: dict[bytes, dict[str, Any]] = {}
        rest = bytes(self.frames)
        self.frames.clear()
        while rest:
            line, rest = rest.split(b"\r\n", 1)
            verb, reply, *_, size = line.split(b" ")
            body, rest = rest[: int(size)], rest[int(size) + 2 :]
            if verb == b"PUB":
                assert reply not in answers, "answered twice"
                answers[reply] = json.loads(body)
        return answers


class Workshop:
    """What the streams of one test share."""

    def __init__(
        self,
        directory: Path,
        *,
        disk: Disk | None = None,
        answers: Answers | None = None,
        threads: int = 4,
        **settings: Any,
    ) -> None:
        self.directory = directory
        self.clock = DrivenClock()
        self.answers = answers or Answers()
        self.sync_executor = ThreadPoolExecutor(1)
        self.work_executor = ThreadPoolExecutor(threads)
        defaults: dict[str, Any] = {
            "erase_interval_s": 0.0,
            "erase_grace_s": 0.0,
            "target_file_bytes": 1 << 16,
        }
        self.services = Services(
            settings=Settings(**{**defaults, **settings}),
            clock=self.clock,
            file_disk=disk or RealDisk(sync=False),
            memory_disk=RealDisk(sync=False),
            cache=RunCache(1 << 20),
            sync_executor=self.sync_executor,
            work_executor=self.work_executor,
            send=self.answers,
        )

    async def open(self, config: StreamConfig) -> Stream:
        """Return the stream of this config, in a directory by its name."""
        return await Stream.open(self.directory / config.name, config, created_ns=0, services=self.services)

    @asynccontextmanager
    async def stream(self, config: StreamConfig | None = None, **fields: Any) -> AsyncIterator[Stream]:
        """Open a stream for the length of a block."""
        stream = await self.open(config or config_of(**fields))
        try:
            yield stream
        finally:
            await stream.close()

    def close(self) -> None:
        """Let the threads go."""
        self.sync_executor.shutdown()
        self.work_executor.shutdown()


def config_of(**fields: Any) -> StreamConfig:
    """Return a config with these fields."""
    return StreamConfig(**{"name": "S", "subjects": (">",), "duplicate_window": 120 * SECOND, **fields})


def headers(**pairs: str) -> bytes:
    """Return a header block; underscores in names stand for hyphens."""
    return header_block.build(
        [(name.replace("_", "-").encode(), value.encode()) for name, value in pairs.items()]
    )


async def publish(stream: Stream, *items: tuple[bytes, bytes] | tuple[bytes, bytes, bytes]) -> None:
    """Offer (subject, data) or (subject, data, headers), replies r0, r1, …, and wait for them."""
    stream.publishing.offer(
        [(i[0], b"r%d" % n, i[2] if len(i) == 3 else b"", i[1]) for n, i in enumerate(items)]
    )
    await stream.publishing.settled()


async def everything(stream: Stream, start_seq: int = 0, filters: Sequence[str] = ()) -> list[Message]:
    """Return every message of a stream, in order."""
    return [message async for part in stream.reading.scan(start_seq, filters) for message in part]


async def seqs_of(stream: Stream) -> list[int]:
    """Return the sequences of all messages of a stream."""
    return [message.seq for message in await everything(stream)]
