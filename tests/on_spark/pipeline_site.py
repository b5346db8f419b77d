"""An engine with pipelines as a process, and a client that declares and reads."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import nats
import psutil
from nats.aio.client import Client
from nats.js import JetStreamContext

from engines import RunningEngine
from waits import until

LIGHT = ("--pipeline-memory", "640m", "--spark-master", "local[2]")
PATIENCE_S = 400.0
"""Spark starts in seconds, but on a busy machine in a minute."""


class PipelineSite:
    """A client of an engine that runs pipelines."""

    def __init__(self, engine: RunningEngine, client: Client) -> None:
        self.engine = engine
        self.client = client
        self.js: JetStreamContext = client.jetstream(timeout=60)

    async def make(self, name: str, subjects: str, **config: Any) -> None:
        """Create a stream."""
        await self.js.add_stream(name=name, subjects=[subjects], **config)

    async def request(self, endpoint: str, body: object = None) -> Any:
        """Return the answer to a request about pipelines."""
        data = b"" if body is None else json.dumps(body).encode()
        answer = await self.client.request(f"$JS.API.PIPELINE.{endpoint}", data, timeout=PATIENCE_S)
        return json.loads(answer.data)

    async def add(self, pipeline: str, **declared: Any) -> Any:
        """Declare a pipeline that must be accepted."""
        answer = await self.request(f"CREATE.{pipeline}", {"every_s": 0.5, **declared})
        assert "error" not in answer, answer
        return answer

    async def clear(self) -> None:
        """Remove all pipelines: each costs two Python processes."""
        for each in (await self.request("LIST"))["pipelines"]:
            await self.request(f"DELETE.{each['config']['name']}")

    async def refused(self, pipeline: str, **declared: Any) -> str:
        """Return why a pipeline is refused."""
        answer = await self.request(f"CREATE.{pipeline}", declared)
        return str(answer["error"]["description"])

    async def info(self, pipeline: str) -> Any:
        """Return the info of a pipeline."""
        return await self.request(f"INFO.{pipeline}")

    async def count(self, stream: str) -> int:
        """Return how many messages a stream has."""
        return int((await self.js.stream_info(stream)).state.messages)

    async def has(self, stream: str, messages: int) -> None:
        """Return once a stream has so many messages."""

        async def enough() -> bool:
            return await self.count(stream) >= messages

        await until(enough, f"{messages} in {stream}", lambda: self.engine.log[-3000:], PATIENCE_S)

    async def shows(self, pipeline: str, state: str, words: str = "") -> Any:
        """Return the info of a pipeline once it has a state, and a problem with these words."""
        last: Any = {}

        async def does() -> bool:
            nonlocal last
            last = await self.info(pipeline)
            return last["state"] == state and words in last["problem"]

        await until(
            does, f"{pipeline} {state} {words}", lambda: f"{last}\n{self.engine.log[-3000:]}", PATIENCE_S
        )
        return last

    async def caught_up(self, pipeline: str) -> None:
        """Return once a pipeline has read everything, and Spark has recorded it."""

        async def has() -> bool:
            return bool((await self.info(pipeline))["lag"] == 0)

        await until(has, f"{pipeline} has no lag", lambda: self.engine.log[-3000:], PATIENCE_S)

    async def publish(self, subject: str, *payloads: object) -> None:
        """Publish payloads as JSON."""
        for each in payloads:
            await self.js.publish(subject, json.dumps(each).encode())

    async def messages(self, stream: str) -> list[tuple[str, str]]:
        """Return the subject and the payload of every message of a stream."""
        info = await self.js.stream_info(stream)
        found = []
        for seq in range(max(info.state.first_seq, 1), info.state.last_seq + 1):
            each = await self.js.get_msg(stream, seq)
            found.append((str(each.subject), (each.data or b"").decode()))
        return found

    def runner(self) -> psutil.Process | None:
        """Return the process of the runner, if it runs."""
        for each in psutil.Process(self.engine.pid).children(recursive=True):
            if _is_runner(each):
                return each
        return None


def _is_runner(process: psutil.Process) -> bool:
    try:
        command = process.cmdline()
    except psutil.Error:
        return False
    return "pipeline" in command and "run" in command and "-m" in command


@asynccontextmanager
async def client_of(engine: RunningEngine) -> AsyncIterator[PipelineSite]:
    """Connect to an engine."""
    client = await nats.connect(engine.client_url, max_reconnect_attempts=-1, reconnect_time_wait=0.1)
    try:
        yield PipelineSite(engine, client)
    finally:
        await client.close()
