"""Where a consumer's messages arrive, and how a scenario shows them."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from nats.aio.msg import Msg

from conformance.probe import (
    ANSWER_WITHIN_S,
    POLL_EVERY_S,
    SETTLE_WITHIN_S,
    Body,
    Probe,
    encoded,
    plain,
    text,
)
from headwater.cli.session import flushed

ACK_TIME = re.compile(r"^(\$JS\.ACK(?:\.[^.]+){5})\.\d+\.(\d+)$")
FLOW_ID = re.compile(r"^(\$JS\.FC\.[^.]+\.[^.]+)\.\w+$")


def ack_subject(reply: str) -> str:
    """Return a reply subject without what differs between two runs."""
    return FLOW_ID.sub(r"\1.<id>", ACK_TIME.sub(r"\1.<ts>.\2", reply))


class Inbox:
    """A subscription whose messages are taken one after the other, and recorded."""

    def __init__(self, probe: Probe, subject: str) -> None:
        self.subject = subject
        self._probe = probe
        self._queue: asyncio.Queue[Msg] = asyncio.Queue()

    async def keep(self, msg: Msg) -> None:
        """Take a message in; the callback of the subscription."""
        await self._queue.put(msg)

    async def take(self, count: int, label: str = "delivered", within: float = ANSWER_WITHIN_S) -> list[Msg]:
        """Record and return the next messages, or fewer if they do not arrive in time."""
        taken = await self.next(count, within)
        shown: list[Any] = [self.shown(msg) for msg in taken]
        if len(taken) < count:
            shown.append("nothing more came")
        self._probe.record(label, f"SUB {self.subject}", shown)
        return taken

    async def next(self, count: int, within: float = ANSWER_WITHIN_S) -> list[Msg]:
        """Return the next messages unrecorded, or fewer if they do not arrive in time."""
        taken: list[Msg] = []
        try:
            async with asyncio.timeout(within):
                while len(taken) < count:
                    taken.append(await self._queue.get())
        except TimeoutError:
            pass
        return taken

    def rest(self, label: str = "the rest") -> None:
        """Record the messages that arrived and were not taken, usually none."""
        shown = []
        while not self._queue.empty():
            shown.append(self.shown(self._queue.get_nowait()))
        self._probe.record(label, f"SUB {self.subject}", shown)

    def shown(self, msg: Msg) -> dict[str, Any]:
        """Return a message as JSON."""
        headers = plain(msg.headers or {})
        if "Nats-Consumer-Stalled" in headers:
            headers["Nats-Consumer-Stalled"] = ack_subject(headers["Nats-Consumer-Stalled"])
        return {
            "subject": "<inbox>" if msg.subject == self.subject else msg.subject,
            "reply": ack_subject(msg.reply),
            "headers": headers,
            "data": text(msg.data),
        }


@asynccontextmanager
async def inbox(probe: Probe, subject: str = "", queue: str = "") -> AsyncIterator[Inbox]:
    """Listen on a subject, a new one if none is given, for as long as the block runs."""
    box = Inbox(probe, subject or probe.nc.new_inbox())
    subscription = await probe.nc.subscribe(box.subject, queue=queue, cb=box.keep)
    await flushed(probe.nc)
    try:
        yield box
    finally:
        await subscription.unsubscribe()
        await flushed(probe.nc)


class Used:
    """One consumer, as a scenario works with it."""

    def __init__(self, probe: Probe, stream: str, name: str) -> None:
        self._probe = probe
        self._path = f"{stream}.{name}"
        self.stream = stream
        self.name = name

    async def create(self, label: str | None = None, action: str = "", **config: Any) -> dict[str, Any]:
        """Create the consumer, durable unless the config says otherwise, and record the answer."""
        given = {"durable_name": self.name, "ack_policy": "explicit"} | config
        if given["durable_name"] is None:
            del given["durable_name"]
            given["name"] = self.name
        body = {"stream_name": self.stream, "config": given, "action": action}
        return await self._probe.api(f"CONSUMER.CREATE.{self._path}", body, label=label)

    async def pull(self, box: Inbox, body: Body = None) -> None:
        """Send a pull request; its messages are sent to the inbox."""
        await self._probe.nc.publish(
            f"$JS.API.CONSUMER.MSG.NEXT.{self._path}", encoded(body), reply=box.subject
        )
        await flushed(self._probe.nc)

    async def fetch(self, body: Body, count: int, label: str | None = None) -> list[Msg]:
        """Pull into a new inbox, and record and return so many messages and statuses."""
        async with inbox(self._probe) as box:
            await self.pull(box, body)
            return await box.take(count, label or f"pull {text(encoded(body))}")

    async def ack(self, msg: Msg, body: bytes = b"+ACK") -> None:
        """Acknowledge as a request, and record that it is confirmed."""
        answer = await self._probe.ask(msg.reply, body)
        self._probe.record(f"ack {text(body)}", f"PUB {ack_subject(msg.reply)} {text(body)}", answer)

    async def info(self, label: str = "") -> dict[str, Any]:
        """Record the consumer's state without its config."""
        answer = await self.quietly()
        shown = {key: value for key, value in answer.items() if key not in ("config", "type")}
        self._probe.record(
            label or f"info of {self.name}", f"$JS.API.CONSUMER.INFO.{self._path} (without config)", shown
        )
        return answer

    async def quietly(self) -> dict[str, Any]:
        """Return the consumer's state, unrecorded."""
        return await self._probe.quietly(f"CONSUMER.INFO.{self._path}")

    async def settle(self, label: str = "", **wanted: Any) -> dict[str, Any]:
        """Wait until the info shows these values, then record it; record what it is when it never does."""
        try:
            async with asyncio.timeout(SETTLE_WITHIN_S):
                while not _shows(await self.quietly(), wanted):
                    await asyncio.sleep(POLL_EVERY_S)
        except TimeoutError:
            self._probe.stumbles.append(f"{self.name} did not become {wanted}")
        return await self.info(label)


def _shows(info: dict[str, Any], wanted: dict[str, Any]) -> bool:
    for key, value in wanted.items():
        found: Any = info
        for part in key.split("__"):
            found = found.get(part) if isinstance(found, dict) else None
        if found != value:
            return False
    return True
