"""Stores STAN publishes in the channel's stream, many at a time, and acknowledges them once durable.

Subscribers get a message before its publisher gets the acknowledgement: both wait for the same group commit,
and acknowledgements are sent one turn of the event loop later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headwater.background_tasks import BackgroundTasks
from headwater.errors import ApiError
from headwater.model.stream import Discard, StreamConfig
from headwater.stan import refusals
from headwater.stan.batches import Batches, ChannelBatch
from headwater.stan.channel import Channel
from headwater.stan.channels import Channels
from headwater.stan.clients import Clients
from headwater.stan.names import valid_channel
from headwater.stan.outbox import Outbox
from headwater.stream.publishing.admission import MAX_HEADER_BYTES
from headwater.stream.stream import Stream
from headwater.wire.frames import Frame
from headwater.wire.stan_frames import frames_to
from headwater.wire.stan_messages import CtrlMsg, DecodeError, MalformedError, PubAck, PubMsg, decode

MAX_REPLY_BYTES = MAX_HEADER_BYTES - 64
"""The reply subject is stored as a header, so that its size is limited."""
Waiting = tuple[bytes, bytes]
"""The reply subject of an acknowledgement, and the PubAck for success."""


class Publishing:
    """Collects the publishes of a socket read by channel, stores and acknowledges them."""

    def __init__(
        self,
        clients: Clients,
        channels: Channels,
        outbox: Outbox,
        answers_prefix: bytes,
        keep_pace: Callable[[Stream], None],
    ) -> None:
        self._clients = clients
        self._channels = channels
        self._outbox = outbox
        self._answers_prefix = answers_prefix
        self._keep_pace = keep_pace
        """Called after publishes, so that reading waits for a slow disk."""
        self._batches = Batches()
        self._asked: dict[bytes, Waiting] = {}
        """Publishes to streams that may refuse them, by the subject on which the stream answers."""
        self._count = 0
        """Numbers the subjects on which streams answer."""
        self._tasks = BackgroundTasks()
        self.in_msgs = 0
        self.in_bytes = 0

    def take_alike(self, frames: Sequence[Frame], start: int) -> int:
        """Collect publishes that match earlier ones of this socket read; return the index of the next."""
        return self._batches.take_alike(frames, start)

    def take(self, frame: Frame) -> Any:
        """Collect a publish; return its message if its channel must be opened first."""
        if self._batches.take(frame):
            return None
        body = frame[3]
        try:
            message = PubMsg.FromString(body)
        except DecodeError:
            if not _is_control(body):
                self.refuse(frame, "", refusals.INVALID_PUBLISH)
            return None
        name = message.subject
        channel = self._channels.get(name)
        if not message.guid or (channel is None and not valid_channel(name)):
            if not (body and not message.guid and _is_control(body)):
                self.refuse(frame, message.guid, refusals.INVALID_PUBLISH)
            return None
        if len(message.reply.encode()) > MAX_REPLY_BYTES:
            self.refuse(frame, message.guid, refusals.INVALID_PUBLISH)
            return None
        if self._clients.publisher(message.clientID, message.connID) is None:
            return message
        if channel is None or channel.is_leaving:
            return message
        self.put(channel, frame, message)
        return None

    def put(self, channel: Channel, frame: Frame, message: Any) -> None:
        """Collect a publish, to be stored with the others of this socket read."""
        self._batches.add(channel, frame, message)

    def refuse(self, frame: Frame, guid: str, text: str) -> None:
        """Answer a publish with an error."""
        self._outbox.answer(frame[1], PubAck(guid=guid, error=text).SerializeToString())

    def flush(self) -> None:
        """Publish the collected messages to the streams."""
        for channel, batch in self._batches.taken().items():
            stream = channel.stream
            self.in_msgs += len(batch.items)
            self.in_bytes += sum([len(item[3]) for item in batch.items])
            if _may_refuse(stream.config) or stream.publishing.may_refuse(batch.items):
                waiting = zip(batch.replies, batch.acks, strict=True)
                stream.publishing.offer(
                    [self._asking(*both) for both in zip(batch.items, waiting, strict=True)]
                )
            else:
                stream.publishing.offer(batch.items)
                stored = self._acknowledge(stream.publishing.promise(), batch)
                self._tasks.start(stored, "stan acks")
            self._keep_pace(stream)

    async def _acknowledge(self, stored: asyncio.Future[None], batch: ChannelBatch) -> None:
        acks = batch.acks
        try:
            await asyncio.shield(stored)
        except ApiError as error:
            problem = _problem(error.description)
            acks = [ack + problem for ack in acks]
        self._outbox.write(frames_to(batch.replies, acks))

    def _asking(self, item: Frame, waiting: Waiting) -> Frame:
        """Return a publish with a reply subject for the stream's answer, because the stream may refuse it."""
        self._count += 1
        reply = b"%b%d" % (self._answers_prefix, self._count)
        self._asked[reply] = waiting
        return item[0], reply, item[2], item[3]

    def answered(self, frame: Frame) -> None:
        """Forward a stream's answer to the publisher."""
        waiting = self._asked.pop(frame[0], None)
        if waiting is None:
            return
        answer = msgspec.json.decode(frame[3])
        text = answer.get("error", {}).get("description", "")
        self._outbox.answer(waiting[0], waiting[1] + _problem(text))

    async def close(self) -> None:
        """Return once all collected publishes are acknowledged."""
        await self._tasks.ended()


def _problem(text: str) -> bytes:
    """Return the bytes that add an error to a PubAck: concatenated protobuf messages are merged."""
    encoded: bytes = PubAck(error=text).SerializeToString()
    return encoded


def _may_refuse(config: StreamConfig) -> bool:
    """Return whether a stream with this config, set by a JetStream client, can refuse a message."""
    return (
        config.sealed
        or config.discard is Discard.NEW
        or config.max_msg_size >= 0
        or config.allow_msg_counter
        or config.allow_msg_schedules
    )


def _is_control(body: bytes) -> bool:
    """Return whether this is a message between clustered servers, which is ignored."""
    try:
        message = decode(CtrlMsg, body)
    except MalformedError:
        return False
    return bool(message.MsgType)
