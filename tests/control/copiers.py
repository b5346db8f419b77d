"""Replication without Spark, for tests: what the engine plans is copied in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from doors import AS_USUAL, SECRET, Door, Wanted, opened_door
from headwater.bus.connection import Connection
from headwater.bus.options import ConnectOptions
from headwater.model.message import Message
from headwater.replication.proof import Prover, UnprovenError
from headwater.replication.work import (
    PlanRequest,
    Receipt,
    Work,
    commit_subject,
    decode_committed,
    decode_plan,
    encode,
    plan_subject,
)
from headwater.replication.worker.transfer import transfer

ROUNDS = 3000


class Copier:
    """A replicator without Spark: it copies each piece of work in this process."""

    def __init__(self, door: Door, connection: Connection) -> None:
        self._connection = connection
        self._store_id = door.store_id
        self._prover = Prover(lambda: SECRET)
        self.works: list[Work] = []
        self.slots = 2
        self.between: Callable[[list[Receipt]], list[Receipt]] = lambda receipts: receipts

    async def tick(self) -> int:
        """Ask for work, do it, hand it in; return how many messages were taken."""
        works = await self.asked()
        self.works += works
        if not works:
            return 0
        receipts = self.between([await asyncio.to_thread(transfer, work) for work in works])
        return await self.hand_in(receipts)

    async def asked(self, under_way: Sequence[str] = (), name: str = "copier") -> tuple[Work, ...]:
        """Return what there is to copy besides what is under way."""
        request = encode(PlanRequest(name=name, under_way=tuple(under_way), slots=self.slots))
        return decode_plan(await self._ask(plan_subject(self._store_id).encode(), request)).works

    async def hand_in(self, receipts: list[Receipt]) -> int:
        subject = commit_subject(self._store_id).encode()
        return sum(decode_committed(await self._ask(subject, encode(receipts))).taken)

    async def _ask(self, subject: bytes, body: bytes) -> bytes:
        """Return the answer to a request, asked a second time if the engine's run was not known."""
        for is_last in (False, True):
            asked: list[bytes] = []

            def request(reply: bytes, asked: list[bytes] = asked) -> bytes:
                asked.append(self._prover.request(subject, reply, body))
                return asked[0]

            frame = await self._connection.request(subject, request, 20)
            try:
                return self._prover.answer(asked[0], frame[3])
            except UnprovenError as error:
                if is_last or not error.is_refusal:
                    raise
        raise AssertionError

    async def until(self, reached: Callable[[], Any]) -> None:
        """Copy until the condition holds."""
        for _ in range(ROUNDS):
            if await reached():
                return
            await self.tick()
        raise AssertionError("it never came to that")


@asynccontextmanager
async def copying(
    store: Path, wanted: Wanted = AS_USUAL, config: str | None = None
) -> AsyncIterator[tuple[Door, Copier]]:
    """Run an engine with a copier."""
    async with opened_door(store, wanted, config) as door:
        connection = Connection(ConnectOptions(servers=(door.client_url,), name="copier"))
        await connection.connect()
        yield door, Copier(door, connection)
        await connection.close()


async def held(door: Door, stream: str) -> list[Message]:
    return [m async for many in door.domain.stream(stream).reading.scan(1) for m in many]


async def create(door: Door, **config: Any) -> Any:
    answer = await door.asker.ask(f"STREAM.CREATE.{config['name']}", config)
    assert "error" not in answer, answer
    return answer


async def publish(door: Door, subject: str, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        await door.asker.publish(subject, b"%s %d" % (subject.encode(), number))


def count_is(door: Door, stream: str, count: int) -> Callable[[], Any]:
    async def reached() -> bool:
        return (await door.domain.stream(stream).reading.state()).messages == count

    return reached


def be_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have requests for work answered soon when there is none, and remote origins queried often."""
    monkeypatch.setattr("headwater.upstreams.upstreams.IDLE_S", 0.05)
    monkeypatch.setattr("headwater.upstreams.pending_upstreams.LOOK_NS", 20_000_000)
    monkeypatch.setattr("headwater.upstreams.upstreams.LOOK_NS", 20_000_000)
