"""Messages of a pull consumer, fetched request by request."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from headwater.cli.received import Received
from headwater.cli.session import Json, Session
from headwater.errors import Error
from headwater.model.times import SECOND

BATCH = 100
_OVER = ("Server Shutdown", "Leadership Change", "Batch Completed")
EXPIRES_SECONDS = 5.0
GRACE_SECONDS = 2.0
"""How long to wait after a request expires for the server's status message."""
IDLE_SECONDS = 60
"""The inactive threshold of the temporary consumer, should this process die without deleting it."""


async def pulled(
    session: Session, info: Json, *, limit: int = 0, wait: float = 0.0, group: str = ""
) -> AsyncGenerator[Msg, None]:
    """Yield a consumer's messages: at most `limit`, until none arrives for `wait` seconds; 0 is no bound."""
    config = info["config"]
    stream, consumer = info["stream_name"], info["name"]
    most = config.get("max_batch") or BATCH
    expires = min(wait or EXPIRES_SECONDS, config.get("max_expires", 0) / SECOND or EXPIRES_SECONDS)
    inbox = session.nats.new_inbox()
    answers = await session.nats.subscribe(inbox)
    taken, quiet = 0, 0.0
    try:
        while not limit or taken < limit:
            batch = min(most, BATCH, limit - taken) if limit else min(most, BATCH)
            request: Json = {"batch": batch, "expires": int(expires * SECOND)}
            if group:
                request["group"] = group
            subject = session.subject(f"CONSUMER.MSG.NEXT.{stream}.{consumer}")
            await session.nats.publish(subject, msgspec.json.encode(request), reply=inbox)
            came = 0
            async for message in _batch(session, answers, batch, expires, (stream, consumer)):
                came += 1
                yield message
            taken += came
            quiet = 0.0 if came else quiet + expires
            if wait and quiet >= wait:
                return
    finally:
        await answers.unsubscribe()


async def _batch(
    session: Session, answers: Subscription, size: int, expires: float, who: tuple[str, str]
) -> AsyncGenerator[Msg, None]:
    """Yield the messages of one request, until it is complete or the server ends it."""
    for _ in range(size):
        try:
            message = await answers.next_msg(expires + GRACE_SECONDS)
        except nats.errors.TimeoutError:
            return
        status = Received.of(message).status
        if not status:
            yield message
        elif status in ("404", "408") or (message.headers or {}).get("Description") in _OVER:
            return
        else:
            await _refused(session, status, message, who)


async def _refused(session: Session, status: str, message: Msg, who: tuple[str, str]) -> None:
    """Raise an error that explains why a pull request was refused."""
    stream, consumer = who
    info = await session.request(f"CONSUMER.INFO.{stream}.{consumer}")
    if info["config"].get("deliver_subject"):
        raise Error(f"{stream} > {consumer} is a push consumer: use `headwater consumer sub`")
    why = (message.headers or {}).get("Description", f"status {status}")
    raise Error(f"{stream} > {consumer} refused the pull request: {why}")


@asynccontextmanager
async def own_consumer(session: Session, stream: str, **config: Any) -> AsyncIterator[Json]:
    """Create a temporary consumer, and delete it afterwards in any case."""
    plain: Json = {"mem_storage": True, "num_replicas": 1, "inactive_threshold": IDLE_SECONDS * SECOND}
    request = {"stream_name": stream, "config": {**plain, **config}}
    info = await session.request(f"CONSUMER.CREATE.{stream}", request)
    try:
        yield info
    finally:
        try:
            await session.request(f"CONSUMER.DELETE.{stream}.{info['name']}")
        except Error:
            pass  # It is deleted already, or expires after its inactive threshold.
