"""DIRECT.GET: messages without the API's envelope, for streams that allow it."""

from __future__ import annotations

import logging
from functools import partial

from headwater.api.direct_answers import answers
from headwater.api.direct_request import DirectRequest, Refusal, parse
from headwater.api.lanes import Lanes
from headwater.bus.connection import Connection
from headwater.errors import Error
from headwater.model import headers
from headwater.model.stream import StreamConfig
from headwater.stream.stream import Stream
from headwater.wire import frames
from headwater.wire.frames import Frame

logger = logging.getLogger(__name__)
QUEUE = b"headwater"
_UNAVAILABLE = headers.build(code=503)
_BUFFER_BYTES = 1 << 20
_WIDTH, _DEPTH, _TOTAL = 8, 8192, 65_536


class DirectDoor:
    """Answers the direct gets of one stream, and, for a mirror, of its origin; the sink of the requests."""

    def __init__(
        self,
        stream: Stream,
        connection: Connection,
        lanes: Lanes,
        prefixes: tuple[str, ...],
        asked_as: str = "",
    ) -> None:
        self.items: list[Frame] = []
        self._stream = stream
        self._connection = connection
        self._lanes = lanes
        self._subjects = tuple(
            f"{prefix}.DIRECT.GET.{asked_as or stream.name}".encode() for prefix in prefixes
        )
        self._sids: list[bytes] = []

    def open(self) -> None:
        """Answer requests from now on."""
        for subject in self._subjects:
            for wanted in (subject, subject + b".>"):
                self._sids.append(self._connection.subscribe(wanted, self, QUEUE))

    def close(self) -> None:
        """Stop answering, so that clients get no responders."""
        for sid in self._sids:
            self._connection.unsubscribe(sid)

    def flush(self) -> None:
        """Begin to answer the requests that have arrived."""
        asked, self.items[:] = list(self.items), []
        for frame in asked:
            if frame[1]:
                refuse = partial(self._connection.publish, frame[1], b"", headers=_UNAVAILABLE)
                self._lanes.submit(self._stream.name, partial(self._answer, frame), refuse)

    async def _answer(self, frame: Frame) -> None:
        """Answer one request; a failure becomes a status."""
        subject, reply, header, body = frame
        try:
            request = parse(self._behind_name(subject), body, header)
            await self._send(reply, request)
        except Refusal as refusal:
            self._connection.publish(reply, b"", headers=refusal.status)
        except Exception as error:
            logger.exception("a direct get of stream %r failed", self._stream.name)
            text = str(error) if isinstance(error, Error) else "internal error"
            failed = headers.build(code=500, description=text.encode())
            self._connection.publish(reply, b"", headers=failed)

    def _behind_name(self, subject: bytes) -> bytes:
        for ours in self._subjects:
            if subject.startswith(ours):
                return subject[len(ours) + 1 :]
        return b""

    async def _send(self, reply: bytes, request: DirectRequest) -> None:
        """Send the answers in buffers of bounded size, no faster than the server accepts them."""
        waiting: list[Frame] = []
        size = 0
        limit = self._connection.max_payload
        try:
            async for header, data in answers(self._stream, request):
                if len(header) + len(data) > limit:
                    raise Refusal(500, f"Message Larger Than Max Payload Of {limit}")
                waiting.append((reply, b"", header, data))
                size += len(header) + len(data)
                if size >= _BUFFER_BYTES:
                    self._connection.write(frames.pubs(waiting))
                    waiting, size = [], 0
                    await self._connection.writable()
        finally:
            if waiting:
                self._connection.write(frames.pubs(waiting))


class DirectGets:
    """Answers for each stream that allows direct gets; an observer of the domain."""

    def __init__(self, connection: Connection, prefixes: tuple[str, ...]) -> None:
        self._connection = connection
        self._prefixes = prefixes
        self._lanes = Lanes(width=_WIDTH, depth=_DEPTH, total=_TOTAL)
        self._doors: dict[str, DirectDoor] = {}
        """By stream name, those that answer direct gets."""

    def on_opened(self, stream: Stream) -> None:
        """Answer for the stream if it allows direct gets."""
        if stream.config.allow_direct:
            self._doors[stream.name] = door = self.door(stream)
            door.open()

    def door(self, stream: Stream, asked_as: str = "") -> DirectDoor:
        """Return the responder of a stream, possibly for requests to its origin; it is not open yet."""
        return DirectDoor(stream, self._connection, self._lanes, self._prefixes, asked_as)

    def on_changed(self, stream: Stream, old: StreamConfig) -> None:
        """Start or stop answering for the stream."""
        if stream.config.allow_direct != old.allow_direct:
            self.on_closed(stream)
            self.on_opened(stream)

    def on_closed(self, stream: Stream) -> None:
        """Stop answering for the stream."""
        door = self._doors.pop(stream.name, None)
        if door is not None:
            door.close()

    async def drain(self) -> None:
        """Return once all accepted requests are answered."""
        await self._lanes.drain()
