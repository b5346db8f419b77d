"""A client that writes in bulk: each batch in parts and once, repeated until its outcome is known."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field

import numpy as np

from headwater.wire.bulk_requests import VERSION, PartChunk, encode_chunk
from headwater.wire.bulk_rows import BulkRows
from simulation.engine.clients import Actor
from simulation.engine.model import Json, Sent, StreamModel
from simulation.engine.world import World

ANSWER_S = 4.0


@dataclass(eq=False)
class Batch:
    """Messages that are one change of the stream."""

    number: int
    messages: list[Sent]
    is_stored: bool = False
    """Whether the engine has confirmed it."""
    may_be_stored: bool = False
    """Whether a commit was sent."""


@dataclass(eq=False)
class Written:
    """What the engine said about one write of a batch."""

    name: str
    parts: list[str] = field(default_factory=list)


class BulkWriter(Actor):
    """One query that writes to a stream, as a Spark query does."""

    pause_s = 4.0

    def __init__(self, world: World, stream: StreamModel) -> None:
        super().__init__(world, f"bulk {stream.name}")
        self.stream = stream
        self._query = f"query-{stream.name}"
        self._prefix = stream.config["subjects"][0].removesuffix(">")
        self._count = 0
        self._writes = 0
        self.batches: list[Batch] = []
        """All batches, also those that were given up."""

    @property
    def last_stored(self) -> int:
        """Return the last batch that the engine has confirmed, -1 if there is none."""
        return max((batch.number for batch in self.confirmed), default=-1)

    async def act(self) -> None:
        if self.rng.random() < 0.2:
            await self._compare_last()
            return
        open_one = self.batches and self.batches[-1].may_be_stored and not self.batches[-1].is_stored
        batch = self.batches[-1] if open_one else self._new_batch()
        written = await self._write(batch)
        if written is None:
            return
        if not batch.may_be_stored and self.rng.random() < 0.15:
            await self._abort(written)
            return
        for _ in range(self.rng.choice((1, 3))):
            if await self._commit(batch, written):
                break
        if batch.is_stored and self.rng.random() < 0.3:
            await self._commit(batch, written)

    def _new_batch(self) -> Batch:
        count, has_ids = self.rng.choice((0, 1, 5, 12)), self.rng.random() < 0.3
        batch = Batch(self.last_stored + 1, [self._message(has_ids) for _ in range(count)])
        for message in batch.messages:
            self.stream.offered(message)
        self.batches.append(batch)
        return batch

    def _message(self, has_id: bool) -> Sent:
        self._count += 1
        data = f"{self.name} {self._count} ".encode() + b"y" * self.rng.choice((0, 100, 3000))
        subject = f"{self._prefix}{self.rng.randrange(5)}".encode()
        headers = b"NATS/1.0\r\nShade: 1\r\n\r\n" if self.rng.random() < 0.2 else b""
        if has_id:
            headers = f"NATS/1.0\r\nNats-Msg-Id: {self._query}-{self._count}\r\n\r\n".encode()
        return Sent(data, subject, headers, self.world.loop.time(), self.world.now_ns())

    async def _write(self, batch: Batch) -> Written | None:
        """Return what was staged of a batch, nothing if the engine did not take all of it."""
        self._writes += 1
        written = Written(f"{self._query}-{self._writes}")
        cut = self.rng.randrange(len(batch.messages) + 1)
        for part, messages in (("a", batch.messages[:cut]), ("b", batch.messages[cut:])):
            if not messages:
                continue
            if not await self._part(written.name, part, messages):
                self.world.counts["bulk part refused"] += 1
                return None
            written.parts.append(part)
        return written

    async def _part(self, write: str, part: str, messages: list[Sent]) -> bool:
        middle = self.rng.randrange(len(messages))
        chunks = [rows_of(each) for each in (messages[:middle], messages[middle:]) if each]
        for index, rows in enumerate(chunks):
            chunk = PartChunk(VERSION, write, part, index, index == len(chunks) - 1, rows.encode())
            for _ in range(self.rng.choice((1, 1, 2))):
                answer = await self._ask("PART", encode_chunk(chunk))
            if answer is None or "error" in answer:
                return False
        return True

    async def _commit(self, batch: Batch, written: Written) -> bool:
        """Ask for a commit, sometimes twice at once; return whether its outcome is known."""
        batch.may_be_stored = True
        body = {"version": VERSION, "write": written.name, "query": self._query, "batch": batch.number}
        body |= {"parts": written.parts, "messages": len(batch.messages)}
        asked = [self._ask("COMMIT", json.dumps(body).encode()) for _ in range(self.rng.choice((1, 1, 2)))]
        answers = [answer for answer in await asyncio.gather(*asked) if answer is not None]
        for answer in answers:
            if "error" not in answer:
                self._confirmed(batch, answer)
            else:
                self.world.counts["bulk refused"] += 1
        self.world.counts["bulk unknown"] += not answers
        return batch.is_stored

    def _confirmed(self, batch: Batch, answer: Json) -> None:
        self.world.counts["bulk duplicate" if answer["duplicate"] else "bulk stored"] += 1
        if not answer["duplicate"] and answer["stored"] != len(batch.messages):
            self.stream.fail(f"batch {batch.number} of {len(batch.messages)} is answered with {answer}")
        if batch.is_stored and not answer["duplicate"] and batch.messages:
            self.stream.fail(f"batch {batch.number} was confirmed and is stored again")
        batch.is_stored = True

    async def _abort(self, written: Written) -> None:
        body = json.dumps({"version": VERSION, "write": written.name}).encode()
        await self._ask("ABORT", body)
        self.world.counts["bulk aborted"] += 1

    async def _compare_last(self) -> None:
        expected = self.last_stored
        answer = await self._ask("LAST", json.dumps({"version": VERSION, "query": self._query}).encode())
        if answer is not None and "error" not in answer and answer["batch"] < expected:
            self.stream.fail(f"batch {expected} was confirmed, the last one is said to be {answer['batch']}")

    async def _ask(self, verb: str, body: bytes) -> Json | None:
        subject = f"$JS.API.STREAM.WRITE.{self.stream.name}.{verb}"
        frame = await self.client.request(subject, body, timeout_s=ANSWER_S)
        answer: Json | None = json.loads(frame[3]) if frame is not None else None
        return answer

    @property
    def confirmed(self) -> list[Batch]:
        """Return the batches that the stream must have."""
        return [batch for batch in self.batches if batch.is_stored]

    def audit(self, confirmed: list[Batch]) -> None:
        """Compare what anyone saw of the stream with the batches: each is whole and in order, or not there.

        `confirmed` are those that were stored before the stream was read.
        """
        for batch in self.batches:
            present = [m for m in batch.messages if m.data in self.stream.seen_at]
            if present and not batch.may_be_stored:
                self.stream.fail(f"{present[0].data[:40]!r} was never committed and is stored")
            missing = [m for m in batch.messages if m not in present and not self.stream.may_be_purged(m)]
            if missing and (batch in confirmed or present):
                what = f"{missing[0].data[:40]!r} of batch {batch.number}"
                self.stream.fail(f"{what} is gone, {len(present)} of {len(batch.messages)} are there")
            places = [self.stream.seen_at[m.data] for m in present]
            if places != sorted(places):
                self.stream.fail(f"batch {batch.number} is in the order {places}")


def rows_of(messages: list[Sent]) -> BulkRows:
    """Return messages as the columns of a chunk."""
    subjects = sorted({message.subject for message in messages})
    return BulkRows(
        subjects,
        np.array([subjects.index(message.subject) for message in messages], np.uint32),
        np.array([len(message.headers) for message in messages], np.uint32),
        b"".join(message.headers for message in messages),
        np.array([len(message.data) for message in messages], np.uint32),
        b"".join(message.data for message in messages),
    )
