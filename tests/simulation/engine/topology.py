"""The streams, consumers and copies of a run: some of each kind, with limits that the seed chooses."""

from __future__ import annotations

import random

from simulation.engine.bulk_writer import BulkWriter
from simulation.engine.churn import Churn
from simulation.engine.clients import (
    Actor,
    Asker,
    Publisher,
    Puller,
    Pushed,
    Reader,
    Remover,
    Taker,
)
from simulation.engine.model import SECOND, ConsumerModel, CopyModel, Json, StreamModel
from simulation.engine.ordered import Ordered
from simulation.engine.stan_client import StanClient
from simulation.engine.world import BrokenPromiseError, World

WINDOW = 120 * SECOND


class Topology:
    """Everything that clients use, and the clients."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = random.Random(f"{world.seed} topology")
        self.api = Asker(world, world.client("topology"))
        self.streams: dict[str, StreamModel] = {}
        self.copies: list[CopyModel] = []
        self.takers: list[Taker] = []
        self.ordered: list[Ordered] = []
        self.publishers: list[Publisher] = []
        self.bulk: list[BulkWriter] = []
        self.stan = StanClient(world)
        self.churns = [Churn(world, "CH0"), Churn(world, "CH1")]

    async def make(self) -> None:
        """Declare everything; nothing breaks yet."""
        rng = self.rng
        compression = rng.choice(("none", "s2"))
        await self._stream(
            "LIM", max_msgs=rng.choice((-1, -1, 60)), allow_direct=True, compression=compression
        )
        await self._stream("AGE", max_age=20 * SECOND, duplicate_window=5 * SECOND)
        await self._stream(
            "KV_b",
            subjects=["$KV.b.>"],
            max_msgs_per_subject=rng.choice((1, 3)),
            allow_rollup_hdrs=True,
            allow_msg_ttl=True,
            allow_direct=True,
            discard=rng.choice(("new", "old")),
        )
        await self._stream("QUE", retention="workqueue")
        await self._stream("INT", retention="interest")
        await self._stream("JOB", retention="workqueue", compression=compression)
        await self._stream("EVT", retention="interest")
        # Of some bursts, the first messages are gone before they can be copied.
        await self._stream("ROL", max_msgs=4)
        # With a limit per subject, bulk writes are stored message by message, without it as files.
        await self._stream("BLK", compression=compression, allow_direct=True)
        await self._stream("BLR", max_msgs_per_subject=100_000)
        await self._copy("BLC", "BLK", is_mirror=rng.random() < 0.5)
        self.bulk = [BulkWriter(self.world, self.streams[name]) for name in ("BLK", "BLR")]
        await self._copy("MIR", "LIM", is_mirror=True, compression=compression)
        await self._copy("SINK", "JOB", is_mirror=False, compression=compression)
        await self._copy("EVTM", "EVT", is_mirror=rng.random() < 0.5)
        await self._copy("ROLM", "ROL", is_mirror=rng.random() < 0.5)
        await self._gather("AGG", ["LIM", "INT", "KV_b"])
        await self._pull("LIM", "p1")
        await self._pull("LIM", "pa", acks_all=True)
        await self._push("LIM", "u1", queue="group" if rng.random() < 0.5 else "")
        await self._pull("MIR", "m1")
        await self._pull("BLK", "b1")
        await self._pull("AGE", "a1")
        if rng.random() < 0.5:
            await self._pull("QUE", "w")
        else:
            await self._pull("QUE", "w0", pattern="que.0")
            for number in range(1, 5):
                await self._pull("QUE", f"w{number}", pattern=f"que.{number}")
        await self._pull("INT", "i1")
        await self._push("INT", "i2")
        await self._pull("AGG", "g1")
        self.ordered = [Ordered(self.world, self.streams[name]) for name in ("LIM", "MIR")]

    async def _asked(self, subject: str, body: Json) -> Json:
        answer = await self.api.ask(subject, body)
        if answer is None or "error" in answer:
            raise BrokenPromiseError(f"{subject} is answered with {answer}")
        return answer

    async def _stream(self, name: str, **config: object) -> StreamModel:
        whole: Json = {"name": name, **config}
        if not (config.get("mirror") or config.get("sources")):
            whole.setdefault("subjects", [f"{name.lower()}.>"])
            whole.setdefault("duplicate_window", WINDOW)
        await self._asked(f"STREAM.CREATE.{name}", whole)
        model = self.streams[name] = StreamModel(self.world, whole)
        if not model.is_copy:
            self.publishers.append(Publisher(self.world, model))
        return model

    async def _copy(self, name: str, origin: str, *, is_mirror: bool, **config: object) -> None:
        upstream = {"name": origin}
        declared: Json = {"mirror": upstream} if is_mirror else {"sources": [upstream]}
        model = await self._stream(name, **declared, **config)
        self._note_copy(CopyModel(self.streams[origin], model, is_mirror))

    async def _gather(self, name: str, origins: list[str]) -> None:
        """Declare a stream of several sources, one filtered, one with other subjects."""
        sources: list[Json] = [{"name": origin} for origin in origins]
        sources[0]["filter_subject"] = "lim.1"
        sources[1]["subject_transforms"] = [{"src": "int.>", "dest": "copied.>"}]
        model = await self._stream(name, sources=sources)
        self._note_copy(CopyModel(self.streams[origins[0]], model, False, filter=b"lim.1"))
        self._note_copy(
            CopyModel(self.streams[origins[1]], model, False, subject_from=b"int.", subject_to=b"copied.")
        )
        for origin in origins[2:]:
            self._note_copy(CopyModel(self.streams[origin], model, False))

    def _note_copy(self, copy: CopyModel) -> None:
        self.copies.append(copy)
        copy.origin.copies.append(copy)

    async def _pull(self, stream: str, name: str, *, pattern: str = "", acks_all: bool = False) -> None:
        config: Json = {"durable_name": name, "ack_policy": "all" if acks_all else "explicit"}
        config["ack_wait"] = self.rng.choice((3, 8)) * SECOND
        if pattern:
            config["filter_subject"] = pattern
        model = await self._consumer(stream, name, config, pattern, acks_all)
        self.takers.append(Puller(self.world, model))

    async def _push(self, stream: str, name: str, queue: str = "") -> None:
        subject = f"push.{stream}.{name}"
        config: Json = {"durable_name": name, "ack_policy": "explicit", "deliver_subject": subject}
        config["ack_wait"] = 4 * SECOND
        if queue:
            config["deliver_group"] = queue
        model = await self._consumer(stream, name, config)
        self.takers.append(Pushed(self.world, model, subject, queue))

    async def _consumer(
        self, stream: str, name: str, config: Json, pattern: str = "", acks_all: bool = False
    ) -> ConsumerModel:
        await self._asked(
            f"CONSUMER.DURABLE.CREATE.{stream}.{name}", {"stream_name": stream, "config": config}
        )
        model = ConsumerModel(self.streams[stream], name, (pattern or ">").encode(), acks_all)
        self.streams[stream].consumers.append(model)
        return model

    def actors(self) -> list[Actor]:
        """Return all clients."""
        plain = [m for m in self.streams.values() if not m.is_copy]
        purged = [m for m in plain if m.name in ("LIM", "KV_b", "BLK")]
        return [
            *self.publishers,
            *self.bulk,
            *self.takers,
            *self.ordered,
            Reader(self.world, [m for m in plain if not m.copies or m.keeps_by_limits]),
            Remover(self.world, purged),
            self.stan,
            *self.churns,
        ]
