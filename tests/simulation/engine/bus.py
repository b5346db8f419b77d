"""A nats-server in memory: subjects, queue groups, leaf deliveries, interest; in order and at once."""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from headwater.bus.options import LEAF_PORT, Address, ConnectOptions
from headwater.wire.frames import Frame
from simulation.engine.loop import LIFE

NO_RESPONDERS = b"NATS/1.0 503\r\n\r\n"
MAX_PAYLOAD = 1 << 20
REPLICATORS = 1_000_000
"""Lives from here on are those of replicators."""


class Subscription(NamedTuple):
    """The receiver of the messages of a subject."""

    owner: Any
    sid: bytes
    subject: bytes
    queue: bytes
    take: Callable[[Frame], None]


@lru_cache(1 << 16)
def matches(pattern: bytes, subject: bytes) -> bool:
    """Return whether a literal subject falls under a pattern."""
    if pattern == subject:
        return True
    wanted, given = pattern.split(b"."), subject.split(b".")
    for index, token in enumerate(wanted):
        if token == b">":
            return len(given) > index
        if index >= len(given) or token not in (b"*", given[index]):
            return False
    return len(wanted) == len(given)


class MemoryServer:
    """The account that engine and clients share."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._subscriptions: dict[tuple[int, bytes], Subscription] = {}
        self._interest: Counter[tuple[bytes, bytes]] = Counter()
        self.leaves: list[MemoryLink] = []
        self.links: list[MemoryLink] = []
        self._literal: dict[bytes, dict[tuple[int, bytes], Subscription]] = {}
        self._wild: dict[tuple[int, bytes], Subscription] = {}
        self.is_up = True

    def subscribe(
        self, owner: Any, sid: bytes, subject: bytes, queue: bytes, take: Callable[[Frame], None]
    ) -> None:
        """Have the messages of a subject taken from now on."""
        made = Subscription(owner, sid, subject, queue, take)
        self._subscriptions[id(owner), sid] = made
        self._kind(subject)[id(owner), sid] = made
        self._interest[subject, queue] += 1
        if self._interest[subject, queue] == 1:
            self._announce(b"LS+", subject, queue)

    def unsubscribe(self, owner: Any, sid: bytes) -> None:
        """End a subscription, if it is there."""
        found = self._subscriptions.pop((id(owner), sid), None)
        if found is None:
            return
        del self._kind(found.subject)[id(owner), sid]
        if not self._kind(found.subject):
            self._literal.pop(found.subject, None)
        self._interest[found.subject, found.queue] -= 1
        if not self._interest[found.subject, found.queue]:
            del self._interest[found.subject, found.queue]
            self._announce(b"LS-", found.subject, found.queue)

    def leave(self, owner: Any) -> None:
        """End all subscriptions of a client."""
        for key in [key for key in self._subscriptions if key[0] == id(owner)]:
            self.unsubscribe(owner, key[1])

    def _announce(self, verb: bytes, subject: bytes, queue: bytes) -> None:
        for leaf in self.leaves:
            leaf.receive(interest_line(verb, subject, queue))

    def all_interest(self) -> bytes:
        """Return the protocol lines of all interest."""
        return b"".join(interest_line(b"LS+", subject, queue) for subject, queue in self._interest)

    def publish(
        self,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        data: bytes,
        shown: bytes = b"",
        queues: Any = None,
    ) -> None:
        """Send a message to one subscriber of each queue group, and to all without a group."""
        groups: dict[bytes, list[Subscription]] = {}
        count = 0
        for subscription in self._takers(subject):
            if not subscription.queue:
                subscription.take((shown or subject, reply, headers, data))
                count += 1
            elif queues is None or subscription.queue in queues:
                groups.setdefault(subscription.queue, []).append(subscription)
        for members in groups.values():
            self._rng.choice(members).take((shown or subject, reply, headers, data))
            count += 1
        if not count and reply and not shown:
            self.publish(reply, b"", NO_RESPONDERS, b"")

    def _kind(self, subject: bytes) -> dict[tuple[int, bytes], Subscription]:
        """Return where subscriptions of this subject are kept."""
        if subject.endswith(b">") or b"*" in subject:
            return self._wild
        return self._literal.setdefault(subject, {})

    def _takers(self, subject: bytes) -> list[Subscription]:
        exact = self._literal.get(subject, {}).values()
        return [*exact, *(s for s in self._wild.values() if matches(s.subject, subject))]


def interest_line(verb: bytes, subject: bytes, queue: bytes) -> bytes:
    """Return the protocol line for the begin or end of interest."""
    if verb == b"LS+" and queue:
        return b"LS+ %b %b 1\r\n" % (subject, queue)
    return b"%b %b%b\r\n" % (verb, subject, b" " + queue if queue else b"")


class MemoryLink:
    """One connection of the engine or the replicator, in its own protocol."""

    def __init__(self, server: MemoryServer, protocol: Any, is_leaf: bool, mute: Callable[[], bool]) -> None:
        self._server = server
        self._protocol = protocol
        self._is_leaf = is_leaf
        self._mute = mute
        self._waiting: list[bytes] = []
        self._is_scheduled = False
        self._is_paused = False
        self.is_lost = False
        self.life = 0

    def write(self, raw: bytes) -> None:
        """Do what the frames say."""
        if self.is_lost or (self.life < REPLICATORS and self._mute()):
            return
        at = 0
        while at < len(raw):
            end = raw.index(b"\r\n", at)
            verb, *words = raw[at:end].split(b" ")
            at = end + 2
            if verb in (b"PUB", b"HPUB", b"LMSG", b"HMSG"):
                size = int(words[-1])
                body = raw[at : at + size]
                assert raw[at + size : at + size + 2] == b"\r\n", raw[:200]
                at += size + 2
                self._message(verb, words, body)
            else:
                self._control(verb, words)

    def _control(self, verb: bytes, words: list[bytes]) -> None:
        if verb == b"SUB":
            subject, sid = words[0], words[-1]
            queue = words[1] if len(words) == 3 else b""
            self._server.subscribe(self, sid, subject, queue, lambda frame: self._deliver(sid, frame))
        elif verb == b"UNSUB":
            self._server.unsubscribe(self, words[0])
        else:
            assert verb in (b"PING", b"PONG", b"CONNECT"), verb

    def _message(self, verb: bytes, words: list[bytes], body: bytes) -> None:
        size = int(words[-2]) if verb in (b"HPUB", b"HMSG") else 0
        names = words[: -2 if verb in (b"HPUB", b"HMSG") else -1]
        headers, data = body[:size], body[size:]
        if len(body) > MAX_PAYLOAD:
            raise AssertionError(f"a message of {len(body)} bytes is larger than the server accepts")
        subject = names[0]
        if not self._is_leaf:
            self._server.publish(subject, names[1] if len(names) > 1 else b"", headers, data)
            return
        queues: list[bytes] = []
        reply = b""
        if len(names) > 1 and names[1] == b"+":
            reply, queues = names[2], names[3:]
        elif len(names) > 1 and names[1] == b"|":
            queues = names[2:]
        elif len(names) > 1:
            reply = names[1]
        shown = subject
        if b"@" in reply:
            reply, _, shown = reply.partition(b"@")
        self._server.publish(subject, reply, headers, data, shown, queues)

    def _deliver(self, sid: bytes, frame: Frame) -> None:
        subject, reply, headers, data = frame
        place = b"%b %b%b" % (subject, sid, b" " + reply if reply else b"")
        if headers:
            total = len(headers) + len(data)
            self.receive(b"HMSG %b %d %d\r\n%b%b\r\n" % (place, len(headers), total, headers, data))
        else:
            self.receive(b"MSG %b %d\r\n%b\r\n" % (place, len(data), data))

    def receive(self, raw: bytes) -> None:
        """Have the engine read this soon, with everything else of this iteration."""
        if self.is_lost:
            return
        self._waiting.append(raw)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled and not self._is_paused:
            self._is_scheduled = True
            self.schedule(self._read)

    def schedule(self, call: Callable[[], None]) -> None:
        """Run something in the engine's own context."""
        raise NotImplementedError

    def _read(self) -> None:
        self._is_scheduled = False
        if self.is_lost or self._is_paused or not self._waiting:
            return
        raw, self._waiting = b"".join(self._waiting), []
        for verb, rest in self._protocol.parse(raw):
            assert verb in (b"LS+", b"LS-"), verb
            self._protocol.event(verb, rest)

    async def writable(self) -> None:
        """Return at once: memory keeps up."""

    def pause_reading(self) -> None:
        """Read no more."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Read again."""
        self._is_paused = False
        if self._waiting:
            self._schedule()

    def lose(self) -> None:
        """Be cut."""
        if not self.is_lost:
            self.is_lost = True
            self._waiting.clear()
            self._server.leave(self)
            if self in self._server.leaves:
                self._server.leaves.remove(self)
            self._server.links.remove(self)


class _Scheduled(MemoryLink):
    """A link whose reads run in the context in which it was made."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._context = contextvars.copy_context()
        self.life = self._context.get(LIFE, 0)

    def schedule(self, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(call, context=self._context)


class MemoryReconnector:
    """Takes the place of a reconnector, between a connection and the server in memory."""

    server: MemoryServer
    mute: Any = staticmethod(lambda: False)

    def __init__(self, options: ConnectOptions, protocol: Any, default_port: int) -> None:
        self.info: dict[str, Any] = {"max_payload": MAX_PAYLOAD, "headers": True}
        self.link: MemoryLink | None = None
        self.address = Address.parse(options.servers[0], default_port)
        self.alternatives = False
        self._protocol = protocol
        self._is_leaf = default_port == LEAF_PORT
        self._is_stopped = False

    async def start(self) -> None:
        """Return once connected."""
        await asyncio.sleep(0)
        while not self.server.is_up:
            await asyncio.sleep(0.1)
        self._connect()
        self._keeping = asyncio.ensure_future(self._keep())

    def _connect(self) -> None:
        self._protocol.begin()
        link = _Scheduled(self.server, self._protocol, self._is_leaf, MemoryReconnector.mute)
        self.link = link
        self.server.links.append(link)
        if self._is_leaf:
            self.server.leaves.append(link)
            link.receive(self.server.all_interest())
        self._protocol.up()

    async def _keep(self) -> None:
        """Connect again when the link is lost."""
        while not self._is_stopped:
            await asyncio.sleep(0.1)
            if self.link is not None and self.link.is_lost:
                self.link = None
                self._protocol.down("cut")
            if self.link is None and self.server.is_up and not self._is_stopped:
                self._connect()

    async def stop(self) -> None:
        """Leave the server."""
        self._is_stopped = True
        if self.link is not None:
            self.link.lose()
            self.link = None
        self._keeping.cancel()

    async def round_trip(self, timeout_s: float) -> None:
        """Return once all that was written before was handled."""
        if self.link is None:
            raise ConnectionError("not connected")
        await asyncio.sleep(0)

    def leave(self) -> None:
        """Nowhere to go."""


class MemoryClient:
    """A client of the server in memory, outside of the engine."""

    def __init__(self, server: MemoryServer, name: str) -> None:
        self._server = server
        self._name = name.replace(" ", "-").encode()
        self._count = 0

    def subscribe(self, subject: str, take: Callable[[Frame], None], queue: str = "") -> bytes:
        """Take the messages of a subject, each in a turn of its own, in order."""
        self._count += 1
        sid = b"%d" % self._count
        loop = asyncio.get_running_loop()

        def later(frame: Frame) -> None:
            loop.call_soon(take, frame)

        self._server.subscribe(self, sid, subject.encode(), queue.encode(), later)
        return sid

    def unsubscribe(self, sid: bytes) -> None:
        """End a subscription."""
        self._server.unsubscribe(self, sid)

    def inbox(self) -> str:
        """Return a subject of our own."""
        self._count += 1
        return f"_INBOX.{self._name.decode()}.{self._count}"

    def publish(self, subject: str | bytes, data: bytes = b"", reply: str = "", headers: bytes = b"") -> None:
        """Publish a message."""
        name = subject if isinstance(subject, bytes) else subject.encode()
        self._server.publish(name, reply.encode(), headers, data)

    async def request(
        self, subject: str | bytes, data: bytes = b"", headers: bytes = b"", timeout_s: float = 5.0
    ) -> Frame | None:
        """Return the first answer, or nothing after a timeout or without responders."""
        reply = self.inbox()
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        sid = self.subscribe(reply, lambda frame: None if answer.done() else answer.set_result(frame))
        try:
            self.publish(subject, data, reply, headers)
            frame = await asyncio.wait_for(answer, timeout_s)
        except TimeoutError:
            return None
        finally:
            self.unsubscribe(sid)
        return None if frame[2].startswith(b"NATS/1.0 503") and not frame[3] else frame
