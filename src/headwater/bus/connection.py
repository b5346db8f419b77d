"""The client connection to nats-server: subscriptions into sinks, coalesced publishes, requests."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import weakref
from collections.abc import Callable
from typing import NamedTuple

from headwater.bus.credentials import authorization
from headwater.bus.handshake import Info, client_hello
from headwater.bus.options import CLIENT_PORT, Address, ConnectOptions
from headwater.bus.permissions import INTERNAL_PREFIX
from headwater.bus.reconnector import Reconnector
from headwater.bus.sink_guard import drop_internal_replies, flush_guarded
from headwater.errors import BusError, Error
from headwater.wire import frames
from headwater.wire.frames import Event, Frame, FrameParser, Sink

logger = logging.getLogger(__name__)
DRAIN_TIMEOUT_S = 5.0
_DENIED = re.compile(
    r'Permissions Violation for (Subscription to|Publish to|Publish with Reply of) "([^"]*)"'
)


class NoRespondersError(Error):
    """No service answers on the subject of a request."""

    retryable = True


class DeniedError(Error):
    """The server's permissions do not allow us to publish a request."""

    retryable = True


class Denial(NamedTuple):
    """A subject that the server's permissions deny us."""

    operation: str  # "subscribe" or "publish"
    subject: str


class ActiveSubscription(NamedTuple):
    """A subscription, which is sent to the server again after each reconnect."""

    subject: bytes
    queue: bytes


def denial(text: str) -> Denial | None:
    """Return the denied subject of a permissions violation, or None for any other error."""
    found = _DENIED.search(text)
    if found is None:
        return None
    return Denial("subscribe" if found[1].startswith("Subscription") else "publish", found[2])


class Connection:
    """A persistent connection: it reconnects forever and restores its subscriptions.

    What is written while there is no server is dropped: clients that wait for it lost their connection as
    well and ask again.
    """

    def __init__(
        self,
        options: ConnectOptions,
        *,
        on_connected: Callable[[], None] | None = None,
        on_disconnected: Callable[[str], None] | None = None,
        on_denied: Callable[[Denial], None] | None = None,
        on_error: Callable[[str], None] | None = None,
    ) -> None:
        self._options = options
        self._on_connected = on_connected
        """Called after each connect, once all subscriptions are made again."""
        self._on_disconnected = on_disconnected
        """Called with the reason when the connection is lost."""
        self._on_denied = on_denied
        """Called when the server denies a subject."""
        self._on_error = on_error
        """Called with every other error of the server."""
        self._reconnector = Reconnector(options, self, CLIENT_PORT)
        self._parser = FrameParser(INTERNAL_PREFIX)
        self._sinks: dict[bytes, Sink] = {}
        """Where the frames of each subscription go, by its id."""
        self._subscriptions: dict[bytes, ActiveSubscription] = {}
        """What to subscribe to again after a reconnect, by id."""
        self._last_sid = 0
        self._inbox = ReplyInbox()
        self._moving: asyncio.Task[None] | None = None
        """Leaves a server in lame duck mode."""
        self._paused_by: set[int] = set()
        """The owners that have paused reading."""

    @property
    def info(self) -> Info:
        """Return the INFO of the current server, or of the last one."""
        return self._reconnector.info

    @property
    def connected(self) -> bool:
        """Return whether we are connected at the moment."""
        return self._reconnector.link is not None

    @property
    def max_payload(self) -> int:
        """Return the largest sum of headers and data that the server accepts."""
        return int(self.info.get("max_payload", 1 << 20))

    async def connect(self) -> None:
        """Return once connected, or raise a BusError with the reason; after that it reconnects forever."""
        await self._reconnector.start()

    def subscribe(self, subject: bytes, sink: Sink, queue: bytes = b"") -> bytes:
        """Send the messages of `subject` into `sink` from now on, and return the sid."""
        self._last_sid += 1
        sid = b"%d" % self._last_sid
        raw = frames.sub(subject, sid, queue)
        self._sinks[sid] = sink
        self._subscriptions[sid] = ActiveSubscription(subject, queue)
        self.write(raw)
        return sid

    def unsubscribe(self, sid: bytes) -> None:
        """End a subscription; messages in transit to it are dropped."""
        if self._subscriptions.pop(sid, None) is not None:
            del self._sinks[sid]
            self.write(frames.unsub(sid))

    def publish(self, subject: bytes, data: bytes, reply: bytes = b"", headers: bytes = b"") -> None:
        """Publish one message."""
        if len(headers) + len(data) > self.max_payload:
            size = len(headers) + len(data)
            raise BusError(
                f"A message of {size} bytes is larger than the server accepts.", f"max_payload: {size}"
            )
        self.write(frames.pub(subject, reply, headers, data))

    def write(self, raw: bytes) -> None:
        """Send encoded frames, in one write with everything else of this loop iteration."""
        link = self._reconnector.link
        if link is not None:
            link.write(raw)

    async def writable(self) -> None:
        """Return once the server keeps up with what was written."""
        if self._reconnector.link is not None:
            await self._reconnector.link.writable()

    def pause_reading(self, owner: object = None) -> None:
        """Receive no more messages until each owner that has paused calls `resume_reading`."""
        self._paused_by.add(id(owner))
        if self._reconnector.link is not None:
            self._reconnector.link.pause_reading()

    def resume_reading(self, owner: object = None) -> None:
        """Receive messages again, unless another owner has paused."""
        self._paused_by.discard(id(owner))
        if self._reconnector.link is not None and not self._paused_by:
            self._reconnector.link.resume_reading()

    async def request(
        self, subject: bytes, data: bytes | Callable[[bytes], bytes], timeout_s: float, headers: bytes = b""
    ) -> Frame:
        """Return the first answer; raise NoRespondersError, DeniedError or TimeoutError if there is none.

        Data that contains the reply subject is built from it by a function.
        """
        if not self._inbox.prefix:
            self._inbox.prefix = f"{self._options.inbox_prefix}.{secrets.token_hex(11)}.".encode()
            self.subscribe(self._inbox.prefix + b"*", self._inbox)
        reply, answer = self._inbox.expect(subject)
        try:
            self.publish(subject, data(reply) if callable(data) else data, reply, headers)
            # Not wait_for: in Python 3.11 that loses a cancellation that arrives together with the answer.
            async with asyncio.timeout(timeout_s):
                frame = await answer
        finally:
            self._inbox.waiting.pop(reply, None)
        if not frame[3] and frame[2].startswith(b"NATS/1.0 503"):
            raise NoRespondersError(f"no responders on {subject.decode(errors='replace')}")
        return frame

    async def flush(self, timeout_s: float = DRAIN_TIMEOUT_S) -> None:
        """Return once the server has processed everything written before."""
        await self._reconnector.round_trip(timeout_s)

    async def quiesce(self) -> None:
        """Unsubscribe from everything, and return once messages in transit have arrived."""
        self._unsubscribe_all()
        if self._options.may_send is not None and not self._options.may_send():
            return  # nothing is sent any more, so no answer would come
        try:
            await self.flush()
        except (TimeoutError, ConnectionError) as error:
            logger.warning("cannot drain the connection: %s", error or type(error).__name__)

    async def drain(self) -> None:
        """Unsubscribe, receive messages in transit, send all answers, then close."""
        await self.quiesce()
        await self.close()

    async def close(self) -> None:
        """Send what is buffered, close, and stop reconnecting."""
        if self._moving is not None:
            self._moving.cancel()
        await self._reconnector.stop()

    def _unsubscribe_all(self) -> None:
        self.write(b"".join([frames.unsub(sid) for sid in self._subscriptions]))

    # The `LinkProtocol` half, called by the reconnector.

    def begin(self) -> None:
        """Drop the incomplete frame of the previous link."""
        self._parser = FrameParser(INTERNAL_PREFIX)

    def hello(self, info: Info, address: Address) -> bytes:
        """Return CONNECT and PING."""
        return client_hello(info, self._options, address)

    def listening(self, address: Address) -> str:
        """Return the line of server config that opens the client port."""
        return f"listen: {address}"

    def admission(self, address: Address) -> str:
        """Return the line of server config that accepts our credentials."""
        return authorization(self._options, address)

    def parse(self, data: bytes) -> list[Event]:
        """Process the messages of one socket read."""
        parser = self._parser
        try:
            return parser.feed(data, self._sinks)
        finally:
            for sink in parser.touched:
                if parser.is_suspect:
                    drop_internal_replies(sink)
                flush_guarded(sink)

    def event(self, verb: bytes, rest: bytes) -> None:
        """Process an error, or a server's lame duck notice."""
        if verb == b"LDM":
            self._moving = asyncio.create_task(self._move())
            return
        text = rest.decode(errors="replace")
        denied = denial(text)
        if denied is not None:
            logger.error("no permission to %s %s: %s", *denied, text)
            if denied.operation == "publish":
                self._inbox.deny(denied.subject)
            if self._on_denied is not None:
                self._on_denied(denied)
            return
        logger.error("nats-server says: %s", text)
        if self._on_error is not None:
            self._on_error(text)

    def up(self) -> None:
        """Restore all subscriptions."""
        subscriptions = self._subscriptions.items()
        self.write(b"".join([frames.sub(subject, sid, queue) for sid, (subject, queue) in subscriptions]))
        if self._paused_by and self._reconnector.link is not None:
            self._reconnector.link.pause_reading()
        logger.info("connected to nats-server at %s", self._reconnector.address)
        if self._on_connected is not None:
            asyncio.get_running_loop().call_soon(self._on_connected)

    def down(self, reason: str) -> None:
        """Report that the connection is lost."""
        if self._on_disconnected is not None:
            asyncio.get_running_loop().call_soon(self._on_disconnected, reason)

    async def _move(self) -> None:
        """Move from a lame duck to another server of the cluster, without losing messages."""
        if not self._reconnector.alternatives:
            return
        self._unsubscribe_all()
        try:
            await self.flush()
        except (TimeoutError, ConnectionError):
            logger.warning("the lame duck server does not answer; disconnecting anyway")
        self._reconnector.leave()


class ReplyInbox:
    """The sink of all answers to our own requests."""

    def __init__(self) -> None:
        self.items: list[Frame] = []
        self.prefix = b""
        """The beginning of all reply subjects; empty until the first request."""
        self.waiting: dict[bytes, asyncio.Future[Frame]] = {}
        """The future of each unanswered request, by its reply subject."""
        self._asked: weakref.WeakKeyDictionary[asyncio.Future[Frame], str] = weakref.WeakKeyDictionary()
        """The subject of each request, so that a denial fails the right ones."""
        self._count = 0
        """Numbers the reply subjects."""

    def expect(self, subject: bytes) -> tuple[bytes, asyncio.Future[Frame]]:
        """Return a new reply subject, and the future of the first answer to a request on `subject`."""
        self._count += 1
        reply = b"%b%d" % (self.prefix, self._count)
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self.waiting[reply] = answer
        self._asked[answer] = subject.decode(errors="replace")
        return reply, answer

    def deny(self, subject: str) -> None:
        """Fail the requests on a subject that the server denies."""
        for answer in self.waiting.values():
            if self._asked.get(answer) == subject and not answer.done():
                answer.set_exception(DeniedError(f"no permission to publish to {subject}"))

    def flush(self) -> None:
        """Pass each answer to its request."""
        for frame in self.items:
            answer = self.waiting.pop(frame[0], None)
            if answer is not None and not answer.done():
                answer.set_result(frame)
        self.items.clear()
