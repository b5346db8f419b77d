"""Clients of the engine: publishers, pull and push consumers, readers, and clients that delete messages."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from typing import Any

from headwater.wire.frames import Frame
from simulation.engine.bus import MemoryClient
from simulation.engine.model import SECOND, ConsumerModel, Json, Purge, Sent, StreamModel
from simulation.engine.world import START_NS, BrokenPromiseError, World


class Asker:
    """Asks the API."""

    def __init__(self, world: World, client: MemoryClient) -> None:
        self._world = world
        self._client = client

    async def ask(
        self, subject: str, body: object = None, timeout_s: float = 5.0, headers: bytes = b""
    ) -> Json | None:
        """Return the answer, or nothing after a timeout."""
        encoded = b"" if body is None else json.dumps(body).encode()
        frame = await self._client.request(f"$JS.API.{subject}", encoded, headers, timeout_s)
        answer: Json | None = json.loads(frame[3]) if frame else None
        kind = "unanswered" if answer is None else "refused" if "error" in answer else "answered"
        self._world.counts[f"api {kind}"] += 1
        return answer

    async def ask_till_end(self, subject: str, body: object = None) -> Json | None:
        """Return the answer, or nothing if the engine ends before: then it was done or never will be."""
        asking = asyncio.ensure_future(self.ask(subject, body, 90.0))
        await asyncio.wait({asking, self._world.ended}, return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            return asking.result()
        asking.cancel()
        return None


class Actor:
    """One client that does something every now and then, until the run winds down."""

    pause_s = 1.0

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.rng = random.Random(f"{world.seed} {name}")
        self.client = world.client(name)
        self.api = Asker(world, self.client)
        self.is_over = False

    async def run(self) -> None:
        """Act until over; what fails is a broken promise or a fault of the simulation."""
        while not self.is_over:
            await asyncio.sleep(self.rng.expovariate(1 / self.pause_s))
            await self.act()

    async def act(self) -> None:
        """Perform one action."""
        raise NotImplementedError


class Publisher(Actor):
    """Publishes to one stream."""

    pause_s = 3.0

    def __init__(self, world: World, stream: StreamModel, subjects: int = 5, timeout_s: float = 4.0) -> None:
        super().__init__(world, f"publisher {stream.name}")
        self.stream = stream
        self._subjects = subjects
        self._timeout_s = timeout_s
        self._count = 0
        self.last_refusal = ""
        self._repeatable: list[tuple[Sent, int]] = []
        """Stored messages that have an id, each with how far the clock was off by then."""
        self._prefix = stream.config["subjects"][0].removesuffix(">")

    async def act(self) -> None:
        count = self.rng.choice((1, 1, 2, 6))
        await asyncio.gather(*(self.publish() for _ in range(count)))
        if self._repeatable and self.rng.random() < 0.3:
            await self._repeat(*self.rng.choice(self._repeatable))

    async def _repeat(self, message: Sent, clock_offset_ns: int) -> None:
        """Offer a message again whose acknowledgement the client has lost: it is stored once all the same."""
        age_ns = self.world.now_ns() - message.clock_ns
        window_ns = self.stream.config["duplicate_window"]
        if clock_offset_ns != self.world.clock_offset_ns or age_ns > window_ns - 60 * SECOND:
            return
        frame = await self.client.request(message.subject, message.data, message.headers)
        answer = json.loads(frame[3]) if frame is not None else {"error": None}
        if "error" in answer or clock_offset_ns != self.world.clock_offset_ns:
            return
        self.world.counts["publish repeated"] += 1
        if not answer.get("duplicate") or answer["seq"] != message.seq:
            self.stream.fail(
                f"{message.data[:40]!r} was stored at {message.seq} and again at {answer['seq']}"
            )

    async def publish(self) -> bool:
        """Publish one message; return whether it was stored."""
        message, msg_id = self._message()
        self.stream.offered(message)
        stored = await self._offer(message)
        if stored is None and msg_id and not self.is_over:
            jumped = self.world.clock_offset_ns
            await asyncio.sleep(self.rng.random() * 3)
            message.may_repeat |= self.stream.config["duplicate_window"] < 60 * SECOND
            message.may_repeat |= jumped != self.world.clock_offset_ns or self.world.loop.slow > 0
            stored = await self._offer(message)
            self.world.counts["publish retried"] += 1
        return bool(stored)

    async def _offer(self, message: Sent) -> bool | None:
        """Return whether it was stored, None if that is unknown."""
        world = self.world
        frame = await self.client.request(
            message.subject, message.data, message.headers, timeout_s=self._timeout_s
        )
        if frame is None:
            world.counts["publish unknown"] += 1
            return None
        answer = json.loads(frame[3])
        if "error" in answer:
            world.counts["publish refused"] += 1
            message.is_refused = True
            self.last_refusal = str(answer["error"])
            return False
        world.counts["publish duplicate" if answer.get("duplicate") else "publish stored"] += 1
        if answer["stream"] != self.stream.name:
            raise BrokenPromiseError(f"stored in {answer['stream']}, not in {self.stream.name}")
        self.stream.acknowledged(message, answer["seq"])
        offered_at_ns = START_NS + int(message.sent_s * 1e9) + world.clock_offset_ns
        if b"Nats-Msg-Id" in message.headers and message.clock_ns == offered_at_ns:
            self._repeatable.append((message, world.clock_offset_ns))
        return True

    def _message(self) -> tuple[Sent, str]:
        self._count += 1
        config, rng = self.stream.config, self.rng
        data = f"{self.stream.name} {self._count} ".encode()
        data += b"x" * rng.choice((0, 10, 100, 100, 1000, 4000))
        lines = []
        msg_id = ""
        if config.get("duplicate_window") and rng.random() < 0.4:
            msg_id = f"{self.stream.name}-{self._count}"
            lines.append(f"Nats-Msg-Id: {msg_id}")
        if rng.random() < 0.2:
            lines.append(f"Shade: {rng.randrange(9)}")
        ttl_s = rng.choice((1, 10, 60)) if config.get("allow_msg_ttl") and rng.random() < 0.15 else 0
        if ttl_s:
            lines.append(f"Nats-TTL: {ttl_s}s")
        rollup = ""
        if config.get("allow_rollup_hdrs") and rng.random() < 0.04:
            rollup = rng.choice(("sub", "sub", "sub", "all"))
            lines.append(f"Nats-Rollup: {rollup}")
        headers = (
            ("NATS/1.0\r\n" + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode() if lines else b""
        )
        subject = f"{self._prefix}{rng.randrange(self._subjects)}".encode()
        world = self.world
        return Sent(data, subject, headers, world.loop.time(), world.now_ns(), ttl_s * SECOND, rollup), msg_id


def ack_fields(reply: bytes) -> tuple[int, int]:
    """Return the stream sequence and the delivery count of an ack subject."""
    tokens = reply.split(b".")
    return int(tokens[-4]), int(tokens[-5])


class Taker(Actor):
    """One consumer's client: takes messages and acknowledges them in every way there is."""

    def __init__(self, world: World, model: ConsumerModel, kind: str) -> None:
        super().__init__(world, f"{kind} {model.stream.name} {model.name}")
        self.model = model
        self.is_draining = False
        self._double: set[asyncio.Task[None]] = set()

    def take(self, frame: Frame) -> None:
        """Take what was delivered, or a status."""
        subject, reply, headers, data = frame
        if not reply.startswith(b"$JS.ACK."):
            return
        seq, count = ack_fields(reply)
        self.world.counts["delivered" if count == 1 else "redelivered"] += 1
        self.model.got(seq, subject, headers, data)
        self._answer(reply, seq)

    def _answer(self, reply: bytes, seq: int) -> None:
        chance = self.rng.random()
        if self.is_draining:
            if not self.model.acks_all or chance < 0.7:
                self._double_ack(reply, seq, b"+ACK")
        elif chance < 0.5:
            self.world.counts["ack"] += 1
            self.model.says_done(seq)
            self.client.publish(reply, b"+ACK" if chance < 0.3 else b"")
        elif chance < 0.53:
            self._ack_and_next(reply, seq)
        elif chance < 0.72:
            self._double_ack(reply, seq, b"+ACK")
        elif chance < 0.76:
            self._double_ack(reply, seq, b"+TERM")
        elif chance < 0.82:
            self.world.counts["nak"] += 1
            delay = self.rng.choice((b"", b"", b' {"delay": 3000000000}'))
            self.client.publish(reply, b"-NAK" + delay)
        elif chance < 0.88:
            self.world.counts["in progress"] += 1
            self.client.publish(reply, b"+WPI")
        else:
            self.world.counts["not acked"] += 1

    def _ack_and_next(self, reply: bytes, seq: int) -> None:
        """Acknowledge; a pull consumer's client requests the next message with it."""
        self.world.counts["ack"] += 1
        self.model.says_done(seq)
        self.client.publish(reply, b"+ACK")

    def _double_ack(self, reply: bytes, seq: int, body: bytes) -> None:
        self.model.says_done(seq)
        task = asyncio.ensure_future(self._confirmed(reply, seq, body))
        self._double.add(task)
        task.add_done_callback(self._double_done)

    def _double_done(self, task: asyncio.Task[None]) -> None:
        self._double.discard(task)
        self.world.check(task)

    async def _confirmed(self, reply: bytes, seq: int, body: bytes) -> None:
        for attempt in range(self.rng.choice((1, 3, 20))):
            frame = await self.client.request(reply, body, timeout_s=2.0)
            if frame is not None and not frame[3] and not frame[2]:
                self.world.counts["double ack confirmed" if body == b"+ACK" else "term confirmed"] += 1
                self.model.is_confirmed(seq, f"life {self.world.life}, attempt {attempt}, {body.decode()}")
                return
            self.world.counts["double ack unanswered"] += 1
            await asyncio.sleep(self.rng.random())


class Puller(Taker):
    """Pulls in batches."""

    def __init__(self, world: World, model: ConsumerModel) -> None:
        super().__init__(world, model, "puller")
        self._inbox = self.client.inbox()
        self._is_listening = False

    async def act(self) -> None:
        if not self._is_listening:
            self._is_listening = True
            self.client.subscribe(self._inbox, self._guarded)
        batch = self.rng.choice((1, 5, 20)) if not self.is_draining else 50
        body: dict[str, Any] = {"batch": batch, "expires": 2 * SECOND}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.model.stream.name}.{self.model.name}"
        self.client.publish(subject, json.dumps(body).encode(), self._inbox)
        await asyncio.sleep(1.0)

    def _ack_and_next(self, reply: bytes, seq: int) -> None:
        self.world.counts["ack and next"] += 1
        self.model.says_done(seq)
        body = self.rng.choice((b"+NXT", b"+NXT 2", b'+NXT {"batch": 2, "expires": 1000000000}'))
        self.client.publish(reply, body, self._inbox)

    def _guarded(self, frame: Frame) -> None:
        self.world.guarded(self.take, frame)


class Pushed(Taker):
    """Is pushed to."""

    def __init__(self, world: World, model: ConsumerModel, subject: str, queue: str = "") -> None:
        super().__init__(world, model, "pushed")
        self._subject = subject
        self._queue = queue
        self._sid: bytes | None = None

    async def act(self) -> None:
        if self._sid is None:
            self._sid = self.client.subscribe(
                self._subject, lambda frame: self.world.guarded(self.take, frame), self._queue
            )
        elif self.rng.random() < 0.03 and not self.is_draining:
            self.client.unsubscribe(self._sid)
            self._sid = None
            self.world.counts["push interest lost"] += 1


class Reader(Actor):
    """Reads single messages and holds what it gets, or does not get, against the model."""

    pause_s = 1.5

    def __init__(self, world: World, streams: list[StreamModel]) -> None:
        super().__init__(world, "reader")
        self._streams = streams

    async def act(self) -> None:
        stream = self.rng.choice(self._streams)
        if not stream.stored:
            return
        seq = self.rng.choice(list(stream.stored))
        direct = stream.config.get("allow_direct") and self.rng.random() < 0.5
        if direct:
            frame = await self.client.request(
                f"$JS.API.DIRECT.GET.{stream.name}", json.dumps({"seq": seq}).encode()
            )
            if frame is not None:
                self._direct(stream, seq, frame)
            return
        asked_s = self.world.loop.time()
        answer = await self.api.ask(f"STREAM.MSG.GET.{stream.name}", {"seq": seq})
        if answer is None:
            return
        if "error" in answer:
            if answer["error"]["code"] == 404 and answer["error"]["err_code"] == 10037:
                self._missing(stream, seq)
            return
        found = answer["message"]
        data, headers = base64.b64decode(found.get("data", "")), base64.b64decode(found.get("hdrs", ""))
        self.world.counts["read"] += 1
        stream.served(found["seq"], found["subject"].encode(), headers, data, asked_s)

    def _direct(self, stream: StreamModel, seq: int, frame: Frame) -> None:
        if frame[2].startswith(b"NATS/1.0 404"):
            self._missing(stream, seq)
        elif not frame[2].startswith(b"NATS/1.0 4") and not frame[2].startswith(b"NATS/1.0 5"):
            self.world.counts["read direct"] += 1
            if frame[3] != stream.stored[seq].data:
                stream.fail(f"{seq} is served as {frame[3][:40]!r}, not {stream.stored[seq].data[:40]!r}")

    def _missing(self, stream: StreamModel, seq: int) -> None:
        self.world.counts["read missing"] += 1
        if not stream.why_gone(seq):
            stream.fail(f"{seq} was acknowledged and is not found")


class Remover(Actor):
    """Deletes single messages and purges subjects."""

    pause_s = 9.0

    def __init__(self, world: World, streams: list[StreamModel]) -> None:
        super().__init__(world, "remover")
        self._streams = streams

    async def act(self) -> None:
        stream = self.rng.choice(self._streams)
        if self.rng.random() < 0.8:
            await self._delete(stream)
        else:
            await self._purge(stream)

    async def _delete(self, stream: StreamModel) -> None:
        if not stream.stored:
            return
        seq = self.rng.choice(list(stream.stored))
        stream.deletable.add(seq)
        body = {"seq": seq, "no_erase": self.rng.random() < 0.5}
        answer = await self.api.ask(f"STREAM.MSG.DELETE.{stream.name}", body)
        if answer is not None and answer.get("success"):
            stream.deleted[seq] = self.world.loop.time()
            self.world.counts["delete"] += 1

    async def _purge(self, stream: StreamModel) -> None:
        prefix = stream.config["subjects"][0].removesuffix(">")
        pattern = self.rng.choice((f"{prefix}1", f"{prefix}2", ">"))
        if pattern == ">" and self.rng.random() < 0.7:
            return
        purge = Purge(pattern.encode(), self.world.loop.time(), self.world.life)
        stream.purges.append(purge)
        answer = await self.api.ask(
            f"STREAM.PURGE.{stream.name}", {"filter": pattern} if pattern != ">" else {}
        )
        if answer is not None:
            purge.done_s = self.world.loop.time()
            purge.is_confirmed = bool(answer.get("success"))
            if purge.is_confirmed:
                self.world.counts["purge"] += 1
