"""An ordered consumer: a client that re-creates its ephemeral consumer whenever it missed something."""

from __future__ import annotations

from headwater.wire.frames import Frame
from simulation.engine.clients import Actor
from simulation.engine.model import SECOND, Json, StreamModel
from simulation.engine.world import World

SILENT_S = 4.0
"""After so long without a message or a heartbeat, the consumer is taken to be gone."""


class Ordered(Actor):
    """Reads one stream from its start, in order and without a gap, whatever happens to the engine."""

    pause_s = 1.0

    def __init__(self, world: World, stream: StreamModel) -> None:
        super().__init__(world, f"ordered {stream.name}")
        self.stream = stream
        self.last_seq = 0
        """The sequence up to which everything was delivered."""
        self._consumer_seq = 0
        self._heard_s = 0.0
        self._sid: bytes | None = None

    async def act(self) -> None:
        if self._sid is not None and self.world.loop.time() - self._heard_s > SILENT_S:
            self._reset()
        if self._sid is None:
            await self._create()

    def _reset(self) -> None:
        if self._sid is not None:
            self.client.unsubscribe(self._sid)
            self._sid = None
            self.world.counts["ordered reset"] += 1

    async def _create(self) -> None:
        inbox = self.client.inbox()
        sid = self._sid = self.client.subscribe(
            inbox, lambda frame: self.world.guarded(self._take, sid, frame)
        )
        self._consumer_seq, self._heard_s = 0, self.world.loop.time()
        config: Json = {
            "deliver_subject": inbox,
            "ack_policy": "none",
            "max_deliver": 1,
            "mem_storage": True,
            "flow_control": True,
            "idle_heartbeat": SECOND,
            "inactive_threshold": 60 * SECOND,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self.last_seq + 1,
        }
        name = self.stream.name
        answer = await self.api.ask(f"CONSUMER.CREATE.{name}", {"stream_name": name, "config": config})
        if answer is None or "error" in answer:
            self._reset()

    def _take(self, sid: bytes, frame: Frame) -> None:
        subject, reply, headers, data = frame
        if sid != self._sid:
            return
        self._heard_s = self.world.loop.time()
        if headers.startswith(b"NATS/1.0 100"):
            self._status(reply, headers)
            return
        tokens = reply.split(b".")
        seq, consumer_seq = int(tokens[-4]), int(tokens[-3])
        if consumer_seq != self._consumer_seq + 1:
            self._reset()
            return
        self._consumer_seq = consumer_seq
        self._next(seq)
        self.stream.served(seq, subject, headers, data)
        self.last_seq = seq
        self.world.counts["ordered"] += 1

    def _status(self, reply: bytes, headers: bytes) -> None:
        """Answer a request of flow control; a heartbeat says whether something was missed."""
        if reply:
            self.client.publish(reply)
        for line in headers.split(b"\r\n"):
            name, _, value = line.partition(b": ")
            if name == b"Nats-Last-Consumer" and int(value) != self._consumer_seq:
                self._reset()

    def _next(self, seq: int) -> None:
        """See that this is the next message."""
        if seq <= self.last_seq:
            self.stream.fail(f"an ordered consumer got {seq} after {self.last_seq}")
        for known in self.stream.stored:
            if self.last_seq < known < seq and not self.stream.why_gone(known):
                self.stream.fail(
                    f"an ordered consumer was not sent {known}, between {self.last_seq} and {seq}"
                )

    def unrest(self, last_seq: int) -> str:
        """Return what it waits for, or nothing if it has everything up to the stream's last message."""
        if self.last_seq >= last_seq:
            return ""
        return f"an ordered consumer of {self.stream.name} is at {self.last_seq}, the stream at {last_seq}"
