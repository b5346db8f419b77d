"""An engine that is killed again and again under load has everything that it acknowledged, each time."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from engines import RunningEngine
from headwater.model.message import Message
from rounds import choose_seed, rounds
from stream.streams import Workshop, config_of, everything

ROUNDS = rounds(12)
WINDOW = 100
KEYS = 40
CAP = 300
OPTIONS = {
    "--fold-messages": "150",
    "--fold-interval-s": "0.05",
    "--compact-interval-s": "0.1",
    "--erase-interval-s": "0",
    "--erase-grace-s": "0.2",
    "--target-file-bytes": "65536",
}
STREAMS: dict[str, dict[str, Any]] = {
    "PLAIN": {"subjects": ["plain.>"]},
    "KEYS": {"subjects": ["keys.>"], "max_msgs_per_subject": 1},
    "CAPPED": {"subjects": ["capped.>"], "max_msgs": CAP},
}


class Book:
    """What was confirmed to publishers and to clients that delete, over all runs of the engine."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.sent = 0
        self.stored: dict[str, dict[int, bytes]] = {name: {} for name in STREAMS}
        """Acknowledged payloads, by stream and sequence."""
        self.deleting: set[int] = set()
        """Sequences of PLAIN that someone asked to be deleted or purged."""
        self.deleted: set[int] = set()
        """Those of them that were acknowledged as gone."""
        self.purges = 0

    def next_message(self, stream: str) -> tuple[str, bytes]:
        """Return a subject and a payload that is like no other."""
        self.sent += 1
        subject = {
            "PLAIN": f"plain.{self.sent % 7}",
            "KEYS": f"keys.{self.rng.randrange(KEYS)}",
            "CAPPED": f"capped.{self.sent % 3}",
        }[stream]
        return subject, b"%d %s %s" % (self.sent, subject.encode(), b"x" * self.rng.randrange(200))

    def acknowledge(self, stream: str, payload: bytes, answer: dict[str, Any]) -> None:
        """Note an answer; an error is a refusal and promises nothing."""
        if "error" in answer:
            return
        assert answer["stream"] == stream
        seq = answer["seq"]
        assert seq not in self.stored[stream], f"{seq} of {stream} was given twice"
        self.stored[stream][seq] = payload


class Publisher:
    """Publishes to one stream for as long as the engine lives, a bounded number unanswered."""

    def __init__(self, client: Client, book: Book, stream: str) -> None:
        self._client = client
        self._book = book
        self._stream = stream
        self._waiting: dict[str, bytes] = {}
        self._room = asyncio.Semaphore(WINDOW)

    async def run(self) -> None:
        """Publish until the connection is lost."""
        inbox = self._client.new_inbox()
        await self._client.subscribe(inbox + ".*", cb=self._answered)
        while not self._client.is_closed:
            await self._room.acquire()
            subject, payload = self._book.next_message(self._stream)
            reply = f"{inbox}.{self._book.sent}"
            self._waiting[reply] = payload
            await self._client.publish(subject, payload, reply=reply)
            if self._book.sent % 20 == 0:
                await asyncio.sleep(0)

    async def _answered(self, answer: Msg) -> None:
        payload = self._waiting.pop(answer.subject)
        self._book.acknowledge(self._stream, payload, json.loads(answer.data))
        self._room.release()


async def delete_some(client: Client, book: Book) -> None:
    """Delete single messages of PLAIN, and now and then purge one of its subjects up to a sequence."""
    while not client.is_closed:
        await asyncio.sleep(0.02)
        candidates = sorted(set(book.stored["PLAIN"]) - book.deleting)
        if not candidates:
            continue
        if book.rng.random() < 0.1:
            below = book.rng.choice(candidates)
            body = {"filter": "plain.0", "seq": below}
            chosen = {s for s, p in book.stored["PLAIN"].items() if s < below and p.split()[1] == b"plain.0"}
            book.deleting |= chosen
            answer = await api(client, "STREAM.PURGE.PLAIN", body)
            assert answer.get("success"), answer
            book.purges += 1
            book.deleted |= chosen
        else:
            seq = book.rng.choice(candidates)
            book.deleting.add(seq)
            answer = await api(client, "STREAM.MSG.DELETE.PLAIN", {"seq": seq})
            assert answer.get("success"), answer
            book.deleted.add(seq)


async def api(client: Client, subject: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request."""
    answer = await client.request("$JS.API." + subject, json.dumps(body).encode(), timeout=20)
    decoded: dict[str, Any] = json.loads(answer.data)
    return decoded


async def connect(engine: RunningEngine) -> Client:
    """Return a client that does not outlive the engine."""

    async def ignore(error: Exception) -> None:
        pass

    return await nats.connect(engine.client_url, allow_reconnect=False, connect_timeout=60, error_cb=ignore)


async def live(engine: RunningEngine, book: Book) -> None:
    """Publish and delete until the engine is killed at a moment of its choosing."""
    client = await connect(engine)
    work = [Publisher(client, book, name).run() for name in STREAMS]
    tasks = [asyncio.create_task(coroutine) for coroutine in [*work, delete_some(client, book)]]
    await asyncio.sleep(book.rng.uniform(0.05, 0.7))
    failed = [task for task in tasks if task.done()]
    await engine.kill()
    for _ in range(500):
        if client.is_closed:
            break
        await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    await client.close()
    assert not failed, outcomes
    for outcome in outcomes:
        if isinstance(outcome, AssertionError):
            raise outcome


async def check_over_the_api(engine: RunningEngine, book: Book) -> None:
    """The newest promises hold as clients see them."""
    client = await connect(engine)
    for name, stored in book.stored.items():
        info = await api(client, f"STREAM.INFO.{name}", {})
        state = info["state"]
        assert state["last_seq"] >= max(stored, default=0), f"{name} forgot its newest messages"
        assert "lost" not in state
        if name == "CAPPED":
            assert state["messages"] <= CAP
        if name == "KEYS":
            assert state["messages"] <= KEYS
    for seq in sorted(book.stored["PLAIN"])[-50:]:
        answer = await api(client, "STREAM.MSG.GET.PLAIN", {"seq": seq})
        if seq not in book.deleting:
            assert "message" in answer, f"{seq} was acknowledged: {answer}"
        elif seq in book.deleted:
            assert "error" in answer, f"{seq} was deleted"
    await client.close()


def check(book: Book, held: dict[str, list[Message]]) -> None:
    """Every promise holds for everything that the store holds."""
    found = {name: {m.seq: m.data for m in messages} for name, messages in held.items()}
    for name, messages in held.items():
        assert [m.seq for m in messages] == sorted({m.seq for m in messages})
        twice = [data for data, count in Counter(m.data for m in messages).items() if count > 1]
        assert not twice, f"{name} holds a message twice"
    for seq, payload in book.stored["PLAIN"].items():
        if seq not in book.deleting:
            assert found["PLAIN"].get(seq) == payload, f"{seq} of PLAIN was acknowledged"
    assert not book.deleted & set(found["PLAIN"]), "what was deleted is back"
    last_seq = max(found["CAPPED"])
    assert len(found["CAPPED"]) == CAP
    for seq, payload in book.stored["CAPPED"].items():
        if seq > last_seq - CAP:
            assert found["CAPPED"].get(seq) == payload, f"{seq} of CAPPED was acknowledged"
    newest = {m.subject: m for m in held["KEYS"]}
    assert len(newest) == len(held["KEYS"])
    for seq, payload in book.stored["KEYS"].items():
        message = newest[payload.split()[1]]
        assert message.seq >= seq, f"{seq} of KEYS was acknowledged"
        if message.seq == seq:
            assert message.data == payload


async def held_by(store: Path) -> AsyncIterator[tuple[str, list[Message]]]:
    """Yield the name and all messages of every stream in a store that no engine holds."""
    for identity in store.glob("*/*/identity.json"):
        workshop = Workshop(identity.parent.parent)
        name = identity.parent.name
        fields = {key: value for key, value in STREAMS[name].items() if key != "subjects"}
        async with workshop.stream(config_of(name=name, **fields)) as stream:
            yield name, await everything(stream)
        workshop.close()


async def test_an_engine_killed_again_and_again_keeps_every_promise(tmp_path: Path) -> None:
    seed = choose_seed()
    book = Book(seed)
    engine = RunningEngine(tmp_path, tuple(word for option in OPTIONS.items() for word in option))
    try:
        await engine.start()
        client = await connect(engine)
        for name, fields in STREAMS.items():
            answer = await api(client, f"STREAM.CREATE.{name}", {"name": name, **fields})
            assert "error" not in answer, answer
        await client.close()
        for _ in range(ROUNDS):
            await live(engine, book)
            if book.rng.random() < 0.2:
                engine.launch()
                await asyncio.sleep(book.rng.uniform(0.1, 1.0))
                await engine.kill()
            await engine.start()
            await check_over_the_api(engine, book)
    finally:
        with suppress(ProcessLookupError):
            await engine.kill()
    held = {name: messages async for name, messages in held_by(engine.store)}
    check(book, held)
    assert all(len(stored) > ROUNDS for stored in book.stored.values()), "hardly anything was published"
    assert len(book.deleted) > ROUNDS
    assert "Traceback" not in engine.log, engine.log[-5000:]
