"""Subscribes to the subjects of every stream and hands each socket read to its stream whole."""

from __future__ import annotations

import asyncio
import logging

from headwater.background_tasks import BackgroundTasks
from headwater.bus.connection import Connection
from headwater.bus.permissions import INTERNAL, INTERNAL_PREFIX
from headwater.errors import Error
from headwater.model.stream import StreamConfig
from headwater.model.subject import collides
from headwater.stream.stream import Stream
from headwater.wire.frames import Frame, Sink

logger = logging.getLogger(__name__)

MAX_BACKLOG_BYTES = 128 << 20
"""So much may wait for the disk over all streams; beyond it nothing more is read from the server."""


STUCK = Error("the disk does not respond, and too many messages wait for it")
HOLD_S = 5.0
"""A stream whose disk gets nothing done for so long keeps the others waiting no longer."""
STOP_WITHIN_S = 30.0
_DEMAND = b"\r\nNats-Expected-Last-Subject-Sequence-Subject:"
_ROLLUP = b"\r\nNats-Rollup:"
GIVEN_WAY = 8
"""Turns of the event loop that others get for each message that takes long: an answer takes several."""
MOST_HELD = 4096
"""The most messages of one stream that wait behind a slow check; more are refused."""
CROWDED = Error("too many messages wait behind demands with wildcards")
BUCKETS = ("$KV.", "$OBJ.")
"""Subjects below a domain's API prefix to which its clients publish, so that leaf nodes pass them on."""


class StreamSink:
    """Takes the publishes of one stream, from all of its subjects, in the order they arrive."""

    def __init__(self, stream: Stream, ingest: Ingest) -> None:
        self.items: list[Frame] = []
        """The publishes of the current socket read; the bus adds them."""
        self.stream = stream
        self._ingest = ingest
        self._held: list[Frame] = []
        """A message with a slow check, and all messages after it."""
        self._offering: asyncio.Task[None] | None = None
        """Offers what is held; None while nothing is."""

    def flush(self) -> None:
        """Offer what one socket read brought, at once unless some of it takes long to check."""
        items, self.items = self.items, []
        if self._offering is not None or any(map(costly_pattern, items)):
            self._hold(items)
            return
        self.stream.publishing.offer(items)
        self._ingest.keep_pace(self.stream)

    def _hold(self, items: list[Frame]) -> None:
        room = max(MOST_HELD - len(self._held), 0)
        self._held += items[:room]
        if len(items) > room:
            self.stream.publishing.refuse(items[room:], CROWDED)
        if self._offering is None:
            self._offering = asyncio.create_task(self._offer_held(), name=f"offer to {self.stream.name}")

    async def _offer_held(self) -> None:
        """Offer what is held in order; other tasks run before each message that takes long."""
        try:
            while self._held:
                pattern = costly_pattern(self._held[0])
                if pattern:
                    for _ in range(GIVEN_WAY):
                        await asyncio.sleep(0)
                    # Last, so that nothing is removed between this and the offer.
                    await self.stream.publishing.prepare(pattern.decode(errors="replace"))
                stop = next((n for n, item in enumerate(self._held) if n and costly_pattern(item)), None)
                items, self._held = self._held[:stop], self._held[stop:] if stop else []
                self.stream.publishing.offer(items)
        finally:
            self.stream.publishing.unprepare()
            self._offering = None

    async def drained(self) -> None:
        """Return once nothing is held."""
        if self._offering is not None:
            await asyncio.wait({self._offering})


def costly_pattern(item: Frame) -> bytes:
    """Return the pattern of subjects that a message is about, if its publisher names one.

    A demand may name one, and a rollup may be published on one.
    """
    header = item[2]
    if not header:
        return b""
    at = header.find(_DEMAND)
    named = header[at + len(_DEMAND) :].partition(b"\r\n")[0].strip() if at >= 0 else b""
    if not _is_wild(named) and _ROLLUP in header:
        named = item[0]
    return named if _is_wild(named) else b""


def _is_wild(subject: bytes) -> bool:
    return b"*" in subject or b">" in subject


class DomainSink:
    """Takes the publishes that name the domain before their subject, as clients of a bucket do."""

    def __init__(self, sink: StreamSink, prefix: str) -> None:
        self.items: list[Frame] = []
        self._sink = sink
        self._length = len(prefix)

    def flush(self) -> None:
        """Hand them on under the subjects they mean."""
        self._sink.items += [(frame[0][self._length :], *frame[1:]) for frame in self.items]
        self.items.clear()
        self._sink.flush()


class GuardedSink:
    """Takes the publishes of a wide pattern, and drops what engines and replicators say to each other."""

    def __init__(self, sink: StreamSink) -> None:
        self.items: list[Frame] = []
        self._sink = sink

    def flush(self) -> None:
        """Hand on what is not internal."""
        taken = [frame for frame in self.items if not frame[0].startswith(INTERNAL_PREFIX)]
        self.items.clear()
        if taken:
            self._sink.items += taken
            self._sink.flush()


class Ingest:
    """Keeps subscriptions in step with the streams, and reading in step with the disk."""

    def __init__(self, connection: Connection, domain: str = "") -> None:
        self.connection = connection
        self._prefix = f"$JS.{domain}.API." if domain else ""
        """The API prefix of the domain; empty without a domain."""
        self._sinks: dict[str, StreamSink] = {}
        """By stream name."""
        self._sids: dict[str, dict[str, bytes]] = {}
        """Our subscriptions to each stream's subjects, by stream name and subject."""
        self._waiting = BackgroundTasks()
        """Tasks that resume reading once a stream's disk has caught up."""

    @property
    def share_bytes(self) -> int:
        """Return how much of the backlog one stream may take."""
        return MAX_BACKLOG_BYTES // max(1, min(len(self._sinks), 8))

    def on_opened(self, stream: Stream) -> None:
        """Begin to accept publishes for the stream."""
        self._sinks[stream.name] = StreamSink(stream, self)
        self._sids[stream.name] = {}
        self._subscribe(stream)

    def on_changed(self, stream: Stream, old: StreamConfig) -> None:
        """Subscribe to the subjects that the stream has now."""
        self._subscribe(stream)

    def on_closed(self, stream: Stream) -> None:
        """Stop accepting publishes for the stream."""
        for sid in self._sids.pop(stream.name).values():
            self.connection.unsubscribe(sid)
        del self._sinks[stream.name]

    async def stop(self) -> None:
        """Take nothing more from the server, and return once all that was taken is durable and answered."""
        await self.connection.quiesce()
        for sink in list(self._sinks.values()):
            await sink.drained()
        waits = [asyncio.create_task(sink.stream.publishing.caught_up()) for sink in self._sinks.values()]
        if waits:
            # What a stream that is stuck has taken is not acknowledged.
            _, late = await asyncio.wait(waits, timeout=STOP_WITHIN_S)
            for task in late:
                task.cancel()

    def _subscribe(self, stream: Stream) -> None:
        sink, sids = self._sinks[stream.name], self._sids[stream.name]
        wanted = set(stream.config.subjects)
        if self._prefix:
            wanted |= {self._prefix + s for s in stream.config.subjects if s.startswith(BUCKETS)}
        for subject in sids.keys() - wanted:
            self.connection.unsubscribe(sids.pop(subject))
        for subject in sorted(wanted - sids.keys()):
            named = self._prefix and subject.startswith(self._prefix)
            sids[subject] = self.connection.subscribe(
                subject.encode(), self._taker(sink, subject, bool(named))
            )

    def _taker(self, sink: StreamSink, subject: str, named: bool) -> Sink:
        """Return what takes the publishes of one subject of a stream."""
        if named:
            return DomainSink(sink, self._prefix)
        return GuardedSink(sink) if collides(subject, INTERNAL) else sink

    def keep_pace(self, stream: Stream) -> None:
        """Read nothing more while too much of a stream waits to become durable."""
        if (
            stream.publishing.backlog_bytes <= self.share_bytes
            or self._waiting
            or stream.publishing.congestion
        ):
            return
        self.connection.pause_reading(self)
        self._waiting.start(self._resume(stream), f"hold back for {stream.name}")

    async def _resume(self, stream: Stream) -> None:
        """Read on when the stream has caught up, or when the others have waited long enough for it."""
        catching_up = asyncio.create_task(stream.publishing.caught_up(), name=f"catch up {stream.name}")
        try:
            durable_seq = -1
            while not catching_up.done() and durable_seq != stream.reading.durable_seq:
                durable_seq = stream.reading.durable_seq
                await asyncio.wait({catching_up}, timeout=HOLD_S)
        finally:
            self.connection.resume_reading(self)
        if not catching_up.done():
            logger.error(
                "stream %s: %d bytes wait for the disk", stream.name, stream.publishing.backlog_bytes
            )
            stream.publishing.congestion = STUCK
            catching_up.add_done_callback(lambda _: _end_congestion(stream))


def _end_congestion(stream: Stream) -> None:
    stream.publishing.congestion = None
    logger.info("stream %s: the disk responds again", stream.name)
