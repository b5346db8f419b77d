"""A client of one server that records every answer it gets, normalised."""

import asyncio
import base64
import dataclasses
import enum
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NoAnswerError
from nats.js.errors import APIError

from conformance.normal import TIME_IN_TEXT, normalise
from conformance.server import Server
from headwater.cli.session import flushed

ANSWER_WITHIN_S = 30.0
SETTLE_WITHIN_S = 60.0
POLL_EVERY_S = 0.05
DELETING = "$JS.API.STREAM.DELETE."

Body = Mapping[str, Any] | bytes | None
Headers = Mapping[str, str] | None


@dataclasses.dataclass(frozen=True)
class Answer:
    """The answer to one step of a scenario."""

    label: str
    request: str
    value: Any


def text(data: bytes) -> str:
    """Return the payload as text, or in base64 where it is not text."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(data).decode()


def encoded(body: Body) -> bytes:
    """Return a request's body as bytes; none is empty."""
    return body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()


def message(msg: Msg) -> dict[str, Any]:
    """Return a received message as JSON: its headers, and its payload as JSON where it is an object."""
    if msg.data[:1] == b"{" and not msg.headers:
        value: dict[str, Any] = json.loads(msg.data)
        return value
    return {"headers": plain(msg.headers or {}), "data": text(msg.data)}


def plain(value: Any) -> Any:
    """Return a client library's value as JSON, its times as text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime):
        return "<time>"
    if isinstance(value, bytes):
        return text(value)
    if isinstance(value, enum.Enum):
        return value.value
    return value if isinstance(value, str | int | float | None) else type(value).__name__


def refusal(error: Exception) -> dict[str, Any]:
    """Return a client library's exception as JSON."""
    shown: dict[str, Any] = {"raises": type(error).__name__}
    if isinstance(error, APIError):
        fields = ("code", "err_code", "description")
        shown |= {field: getattr(error, field) for field in fields if hasattr(error, field)}
    return shown


class Heard:
    """Messages that arrived on a subject while the scenario listened."""

    def __init__(self, probe: "Probe", subject: str) -> None:
        self._probe = probe
        self._subject = subject
        self.queue: asyncio.Queue[Msg] = asyncio.Queue()

    async def keep(self, msg: Msg) -> None:
        """Take a message in; the callback of the subscription."""
        await self.queue.put(msg)

    async def take(self, count: int, label: str | None = None, within: float = ANSWER_WITHIN_S) -> list[Any]:
        """Record the next messages, or fewer if they do not arrive in time."""
        taken: list[Any] = []
        try:
            async with asyncio.timeout(within):
                while len(taken) < count:
                    msg = await self.queue.get()
                    taken.append({"subject": msg.subject} | message(msg))
        except TimeoutError:
            taken.append("nothing more came")
        self._probe.record(label or f"heard on {self._subject}", f"SUB {self._subject}", taken)
        return taken


class Probe:
    """A connection, and the list of what was answered on it."""

    def __init__(self, server: Server, nc: Client) -> None:
        self.server = server
        self.nc = nc
        self.js = nc.jetstream(timeout=ANSWER_WITHIN_S)
        self.answers: list[Answer] = []
        self.stumbles: list[str] = []
        self._labels: dict[str, int] = {}

    @classmethod
    @asynccontextmanager
    async def connected(cls, server: Server) -> AsyncIterator["Probe"]:
        """Connect to a server, and on leaving delete every stream that is there."""
        nc = await nats.connect(server.url, allow_reconnect=False, connect_timeout=60)
        probe = cls(server, nc)
        try:
            yield probe
        finally:
            await probe._delete_streams()
            await nc.close()

    async def _delete_streams(self) -> None:
        answer = await self.quietly("STREAM.NAMES")
        for name in answer.get("streams") or []:
            await self.quietly(f"STREAM.DELETE.{name}")
        await self.server.emptied()

    async def ask(
        self,
        subject: str,
        payload: bytes = b"",
        headers: Headers = None,
        timeout: float = ANSWER_WITHIN_S,
    ) -> dict[str, Any]:
        """Return the answer to a request unrecorded; no answer is a result, too."""
        given = dict(headers) if headers else None
        try:
            answer = message(await self.nc.request(subject, payload, timeout=timeout, headers=given))
        except NoRespondersError:
            return {"no answer": "no responders"}
        except NoAnswerError:
            return {"no answer": "timeout"}
        if subject.startswith(DELETING) and answer.get("success"):
            await self.server.forgotten(subject.removeprefix(DELETING))
        return answer

    def record(self, label: str, request: str, value: Any) -> None:
        """Add an answer; a label used before gets a number."""
        self._labels[label] = count = self._labels.get(label, 0) + 1
        label = label if count == 1 else f"{label} ({count})"
        self.answers.append(Answer(label, request, normalise(value)))

    async def api(
        self,
        endpoint: str,
        body: Body = None,
        *,
        headers: Headers = None,
        label: str | None = None,
        timeout: float = ANSWER_WITHIN_S,
    ) -> dict[str, Any]:
        """Send a request of the JetStream API and record its answer."""
        payload = encoded(body)
        answer = await self.ask(f"$JS.API.{endpoint}", payload, headers, timeout)
        shown = f"$JS.API.{endpoint} {text(payload[:500])}" + (f" {dict(headers)}" if headers else "")
        self.record(label or endpoint, shown, answer)
        return answer

    async def quietly(self, endpoint: str, body: Body = None) -> dict[str, Any]:
        """Send a request of the JetStream API and return its answer unrecorded."""
        return await self.ask(f"$JS.API.{endpoint}", encoded(body))

    async def create(self, config: Mapping[str, Any], label: str | None = None) -> dict[str, Any]:
        """Create the stream that the config names and record the answer."""
        return await self.api(f"STREAM.CREATE.{config['name']}", config, label=label)

    async def update(self, config: Mapping[str, Any], label: str | None = None) -> dict[str, Any]:
        """Update the stream that the config names and record the answer."""
        return await self.api(f"STREAM.UPDATE.{config['name']}", config, label=label)

    async def publish(
        self,
        subject: str,
        data: bytes = b"",
        headers: Headers = None,
        *,
        label: str | None = None,
        timeout: float = ANSWER_WITHIN_S,
    ) -> dict[str, Any]:
        """Publish with a reply subject and record the acknowledgement."""
        answer = await self.ask(subject, data, headers, timeout)
        shown = f"PUB {subject} {text(data[:100])}" + (f" {dict(headers)}" if headers else "")
        self.record(label or f"publish {subject}", shown, answer)
        return answer

    async def send(self, subject: str, data: bytes = b"", headers: Headers = None) -> None:
        """Publish without a reply subject; returns once the server has the message."""
        await self.nc.publish(subject, data, headers=dict(headers) if headers else None)
        await flushed(self.nc)

    async def fill(self, subject: str, *payloads: bytes) -> None:
        """Publish the payloads one after the other and record the last acknowledgement only."""
        answer: dict[str, Any] = {}
        for data in payloads:
            answer = await self.ask(subject, data)
        self.record(f"fill {subject}", f"PUB {subject} ({len(payloads)} times)", answer)

    async def state(self, stream: str, **request: Any) -> dict[str, Any]:
        """Record the state part of a stream's info."""
        answer = await self.quietly(f"STREAM.INFO.{stream}", request or None)
        state: dict[str, Any] = answer.get("state", answer)
        self.record(f"state of {stream}", f"$JS.API.STREAM.INFO.{stream} {request}", state)
        return state

    async def settle(self, stream: str, settled: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until the stream's state is as given, then record it; after the wait, record it as it is."""
        try:
            async with asyncio.timeout(SETTLE_WITHIN_S):
                while not settled(await self._state(stream)):
                    await asyncio.sleep(POLL_EVERY_S)
        except TimeoutError:
            self.stumbles.append(f"{stream} did not settle")
        await self.state(stream)

    async def _state(self, stream: str) -> dict[str, Any]:
        answer = await self.quietly(f"STREAM.INFO.{stream}")
        state: dict[str, Any] = answer["state"]
        return state

    async def contents(self, stream: str) -> list[Any]:
        """Record every message of a stream in order, as MSG.GET shows it."""
        found: list[Any] = []
        seq = 1
        while True:
            answer = await self.quietly(f"STREAM.MSG.GET.{stream}", {"seq": seq, "next_by_subj": ">"})
            if "message" not in answer:
                break
            found.append(opened(answer["message"]))
            seq = answer["message"]["seq"] + 1
        self.record(f"contents of {stream}", f"$JS.API.STREAM.MSG.GET.{stream} (every message)", found)
        return found

    async def direct(self, stream: str, body: Body = None, label: str | None = None) -> list[Any]:
        """Send a direct get and record every message of the answer, to its end marker if it has one."""
        payload = encoded(body)
        subject = f"$JS.API.DIRECT.GET.{stream}"
        many = isinstance(body, Mapping) and bool(body.get("batch") or "multi_last" in body)
        heard: list[Any] = []
        inbox = self.nc.new_inbox()
        subscription = await self.nc.subscribe(inbox)
        await self.nc.publish(subject, payload, reply=inbox)
        try:
            while True:
                msg = await subscription.next_msg(ANSWER_WITHIN_S)
                heard.append({"headers": plain(msg.headers or {}), "data": text(msg.data)})
                if not many or "Status" in (msg.headers or {}):
                    break
        except NoAnswerError:
            heard.append({"no answer": "timeout"})
        await subscription.unsubscribe()
        self.record(label or f"direct {stream} {text(payload)}", f"{subject} {text(payload)}", heard)
        return heard

    @asynccontextmanager
    async def listening(self, subject: str) -> AsyncIterator[Heard]:
        """Subscribe to a subject for the length of a block."""
        heard = Heard(self, subject)
        subscription = await self.nc.subscribe(subject, cb=heard.keep)
        await flushed(self.nc)
        try:
            yield heard
        finally:
            await subscription.unsubscribe()

    async def call(self, label: str, call: Awaitable[Any]) -> Any:
        """Await a call of the client library and record its result, or the exception it raised."""
        try:
            result = await call
        except (nats.errors.Error, ValueError, KeyError) as error:
            self.record(label, label, refusal(error))
            return None
        self.record(label, label, plain(result))
        return result


async def delete_streams(server: Server) -> None:
    """Delete all streams of a server."""
    async with Probe.connected(server):
        pass


def opened(stored: dict[str, Any]) -> dict[str, Any]:
    """Return a message of MSG.GET with payload and headers as text."""
    shown = dict(stored)
    for key in ("data", "hdrs"):
        if key in shown:
            shown[key] = TIME_IN_TEXT.sub("<time>", text(base64.b64decode(shown[key])))
    return shown
