"""A client that creates, updates, deletes and re-creates a stream, and knows what was confirmed."""

from __future__ import annotations

import json

from simulation.engine.clients import Actor
from simulation.engine.model import Json
from simulation.engine.world import BrokenPromiseError, World

ABSENT = "absent"


class Churn(Actor):
    """One stream under constant change; a request without an answer leaves both outcomes possible."""

    pause_s = 5.0

    def __init__(self, world: World, stream: str) -> None:
        super().__init__(world, f"churn {stream}")
        self.stream = stream
        self.possible: set[str] = {ABSENT}
        """Which states the stream may be in: absent, or the description in its config."""
        self.consumer: set[str] = {ABSENT}
        """The same of its one consumer."""
        self.data: dict[int, bytes] = {}
        """Acknowledged by the present stream."""
        self._count = 0

    async def act(self) -> None:
        if len(self.possible) > 1 or len(self.consumer) > 1:
            await self.look()
            return
        (state,) = self.possible
        if state == ABSENT:
            await self._change("STREAM.CREATE", self._config(), self._label())
            return
        match self.rng.randrange(8):
            case 0 | 1:
                await self._change("STREAM.UPDATE", self._config(), self._label())
            case 2:
                await self._delete()
            case 3 | 4:
                await self._consume()
            case _:
                await self._publish()

    def _label(self) -> str:
        return f"v{self._count}"

    def _config(self) -> Json:
        self._count += 1
        return {
            "name": self.stream,
            "subjects": [f"{self.stream.lower()}.>"],
            "description": self._label(),
            "max_msgs": 1000 + self._count,
        }

    async def _change(self, verb: str, config: Json, label: str) -> None:
        self.possible.add(label)
        answer = await self.api.ask_till_end(f"{verb}.{self.stream}", config)
        if answer is not None and "error" not in answer:
            self.possible = {label}
            self.world.counts[verb.lower()] += 1
            if verb == "STREAM.CREATE":
                self.data, self.consumer = {}, {ABSENT}

    async def _delete(self) -> None:
        self.possible.add(ABSENT)
        answer = await self.api.ask_till_end(f"STREAM.DELETE.{self.stream}")
        if answer is not None and answer.get("success"):
            self.possible, self.consumer, self.data = {ABSENT}, {ABSENT}, {}
            self.world.counts["stream.delete"] += 1

    async def _consume(self) -> None:
        (state,) = self.consumer
        if state != ABSENT and self.rng.random() < 0.5:
            await self._delete_consumer()
            return
        self._count += 1
        label = f"k{self._count}"
        self.consumer.add(label)
        config = {"durable_name": "c", "ack_policy": "explicit", "description": label}
        body = {"stream_name": self.stream, "config": config}
        answer = await self.api.ask_till_end(f"CONSUMER.DURABLE.CREATE.{self.stream}.c", body)
        if answer is not None and "error" not in answer:
            self.consumer = {label}
            self.world.counts["consumer.create" if state == ABSENT else "consumer.update"] += 1

    async def _delete_consumer(self) -> None:
        self.consumer.add(ABSENT)
        answer = await self.api.ask_till_end(f"CONSUMER.DELETE.{self.stream}.c")
        if answer is not None and answer.get("success"):
            self.consumer = {ABSENT}
            self.world.counts["consumer.delete"] += 1

    async def _publish(self) -> None:
        self._count += 1
        data = f"{self.stream} {self._count}".encode()
        frame = await self.client.request(f"{self.stream.lower()}.x", data)
        if frame is not None and b'"seq"' in frame[3] and b"error" not in frame[3]:
            seq = json.loads(frame[3])["seq"]
            if seq in self.data:
                raise BrokenPromiseError(f"{self.stream} gave sequence {seq} twice")
            self.data[seq] = data

    async def look(self) -> bool:
        """Find out which of the possible states holds; return whether the engine said so."""
        known = set(self.possible)
        answer = await self.api.ask(f"STREAM.INFO.{self.stream}")
        if answer is None or known != self.possible:
            return False
        if "error" in answer:
            if answer["error"]["err_code"] != 10059:
                return False
            found = ABSENT
        else:
            found = answer["config"].get("description", "")
        if found not in self.possible:
            raise BrokenPromiseError(
                f"{self.stream} is {found}, it can only be one of {sorted(self.possible)}"
            )
        if found == ABSENT:
            self.consumer, self.data = {ABSENT}, {}
        self.possible = {found}
        self.world.counts["catalogue checked"] += 1
        return found == ABSENT or await self._look_at_consumer(answer)

    async def _look_at_consumer(self, info: Json) -> bool:
        last = info["state"]["last_seq"]
        if self.data and last < max(self.data):
            raise BrokenPromiseError(f"{self.stream} ends at {last}, {max(self.data)} was acknowledged")
        if info["state"]["messages"] < len(self.data):
            raise BrokenPromiseError(
                f"{self.stream} holds {info['state']}, {len(self.data)} were acknowledged"
            )
        answer = await self.api.ask(f"CONSUMER.LIST.{self.stream}")
        if answer is None or "error" in answer:
            return False
        found = next((each["config"]["description"] for each in answer["consumers"] or []), ABSENT)
        if found not in self.consumer:
            raise BrokenPromiseError(f"{self.stream}/c is {found}, it can only be {sorted(self.consumer)}")
        self.consumer = {found}
        return True
