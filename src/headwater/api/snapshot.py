"""Sending a stream's archive to a client, no faster than it acknowledges the chunks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence

import msgspec

from headwater.api.archived_consumers import taken
from headwater.api.context import ApiContext
from headwater.api.request import Request
from headwater.control.subject_rules import can_be_sent_to
from headwater.errors import Error, api_error
from headwater.model import headers
from headwater.model.message import Message
from headwater.model.stream import StreamState
from headwater.model.unique import unique_id
from headwater.stream.stream import Stream
from headwater.table.archive import (
    PART_BYTES,
    PART_MESSAGES,
    VERSION,
    WITHOUT_CONSUMERS,
    ArchivedConsumer,
    ArchiveWriter,
    Manifest,
)
from headwater.wire.frames import Frame
from headwater.wire.go_json import boolean, int_, string
from headwater.wire.stream_json import Json, config_json, encode_config, state_json

logger = logging.getLogger(__name__)
KIB, MIB = 1 << 10, 1 << 20
_FIELDS = {
    "deliver_subject": string,
    "no_consumers": boolean,
    "chunk_size": int_,
    "window_size": int_,
    "jsck": boolean,
}


class NoInterestError(Error):
    """The subject for the chunks has no subscriber."""


class NoFlowError(Error):
    """The client does not acknowledge the chunks."""


async def begin(context: ApiContext, request: Request) -> Json:
    """Answer with the content of the archive; its chunks follow."""
    stream = context.domain.stream(request.stream)
    asked = request.decode(_FIELDS, "JSApiStreamSnapshotRequest")
    deliver = asked.get("deliver_subject", "")
    if not can_be_sent_to(deliver):
        raise api_error("snapshot_deliver_subject_invalid")
    # Before the state, so that everything that was delivered to a consumer is part of the archive.
    consumers = [] if asked.get("no_consumers") else taken(context.consumers.of(stream))
    # Also before it: a record without its messages would cost a batch, messages without it are stored twice.
    queries = stream.bulk.records
    state = msgspec.structs.replace(
        await stream.reading.state(), consumer_count=context.consumers.count(stream)
    )
    chunk_size, in_flight = flow(asked.get("chunk_size", 0), asked.get("window_size", 0))
    # A chunk must fit into one message.
    chunk_size = min(chunk_size, context.connection.max_payload)
    snapshot = Snapshot(
        context, request, stream, state, consumers, queries, deliver.encode(), chunk_size, in_flight
    )
    # The task first runs after the answer to this request has been written.
    context.transfers.start(f"snapshot {stream.name}", snapshot.run())
    return {"config": config_json(stream.config), "state": state_json(state)}


def flow(chunk_size: int, window_size: int) -> tuple[int, int]:
    """Return the size of a chunk, and how many may be unacknowledged."""
    chunk = min(max(chunk_size or 128 * KIB, KIB), MIB)
    window = min(max(window_size or 8 * MIB, KIB), 32 * MIB)
    return chunk, max(window, chunk) // chunk


class Snapshot:
    """One archive being sent; the sink of its acks."""

    def __init__(
        self,
        context: ApiContext,
        request: Request,
        stream: Stream,
        state: StreamState,
        consumers: Sequence[ArchivedConsumer],
        queries: dict[str, bytes],
        deliver: bytes,
        chunk_size: int,
        in_flight: int,
    ) -> None:
        self.items: list[Frame] = []
        self._context = context
        self._request = request
        self._stream = stream
        self._state = state
        self._consumers = consumers
        self._queries = queries
        """The records of bulk writes."""
        self._deliver = deliver
        self._chunk_size = chunk_size
        self._slots = asyncio.Semaphore(in_flight)
        self._has_no_responders = False
        self._acks = f"$JS.SNAPSHOT.ACK.{stream.name}.{unique_id()}".encode()
        self._sent = 0
        """How many chunks were sent."""

    def flush(self) -> None:
        """Allow one more chunk for each that was acknowledged."""
        for _, _, header, _ in self.items:
            # The server itself answers for a subject without a subscriber.
            status = headers.status(header) if header else None
            self._has_no_responders |= status is not None and status.code == 503
            self._slots.release()
        self.items.clear()

    async def run(self) -> None:
        """Send the archive, then the status that ends it."""
        context = self._context
        start_ns = context.clock.now_ns()
        context.advisories.snapshot_begun(self._request, self._state)
        sid = context.connection.subscribe(self._acks + b".>", self)
        code, text = 204, ""
        try:
            await self._met()
            await self._send_all()
        except NoInterestError:
            code, text = 408, "No Interest"
        except NoFlowError:
            code, text = 408, "No Flow Response"
        except (Error, OSError) as error:
            logger.exception("the snapshot of stream %r failed", self._stream.name)
            code, text = 500, str(error)
        finally:
            context.connection.unsubscribe(sid)
        end = headers.build(code=code, description=text.encode())
        context.connection.publish(self._deliver, b"", headers=end)
        context.advisories.snapshot_ended(self._request, start_ns, text.lower())

    async def _send_all(self) -> None:
        left, size = b"", self._chunk_size
        async for piece in self._pieces():
            buffer = left + piece
            whole = len(buffer) - len(buffer) % size
            for start in range(0, whole, size):
                await self._send(buffer[start : start + size])
            left = buffer[whole:]
        # An empty chunk would mean the end.
        if left:
            await self._send(left)

    async def _send(self, chunk: bytes) -> None:
        try:
            async with asyncio.timeout(self._context.transfers.timeouts.ack_s):
                await self._slots.acquire()
        except TimeoutError:
            raise NoFlowError("no flow response") from None
        if self._has_no_responders:
            raise NoInterestError("no interest")
        self._sent += 1
        reply = b"%b.%d.%d" % (self._acks, len(chunk), self._sent)
        self._context.connection.publish(self._deliver, chunk, reply=reply)
        await self._context.connection.writable()

    async def _met(self) -> None:
        """Return once a client has subscribed, which the `nats` command line does after it gets the answer.

        A wildcard subscription, such as a client's for all of its answers, does not count.
        """
        try:
            async with asyncio.timeout(self._context.transfers.timeouts.interest_s):
                await self._context.consumers.outlet.subscribed(self._deliver)
        except TimeoutError:
            logger.debug("no client has subscribed to %r", self._deliver)

    async def _pieces(self) -> AsyncIterator[bytes]:
        """Yield the archive in order, about a part at a time."""
        writer = ArchiveWriter()
        state = self._state
        yield writer.begin(
            Manifest(
                config=msgspec.Raw(encode_config(self._stream.config)),
                created_ns=self._stream.created_ns,
                first_seq=state.first_seq,
                last_seq=state.last_seq,
                last_ts=state.last_ts,
                messages=state.messages,
                version=VERSION if self._consumers else WITHOUT_CONSUMERS,
                queries=self._queries or msgspec.UNSET,
            )
        )
        loop = asyncio.get_running_loop()
        async for messages in self._parts():
            yield await loop.run_in_executor(self._context.transfers.executor, writer.part, messages)
        for consumer in self._consumers:
            yield writer.consumer(consumer)
        yield writer.end()

    async def _parts(self) -> AsyncIterator[list[Message]]:
        """Yield the messages up to the state's last sequence in groups of bounded size."""
        part: list[Message] = []
        size = 0
        if not self._state.messages:
            return
        async for messages in self._stream.reading.scan(self._state.first_seq, (), self._state.last_seq):
            for message in messages:
                part.append(message)
                size += len(message.subject) + len(message.headers) + len(message.data)
                if size >= PART_BYTES or len(part) >= PART_MESSAGES:
                    yield part
                    part, size = [], 0
        if part:
            yield part
