"""Whatever the disk does, every message is delivered until it is acknowledged, and a confirmed ack holds."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from delivery.deliveries import SECOND, Delivery, Desk, KeptOutlet
from headwater.delivery.advisories import ConsumerAdvisories
from headwater.delivery.consumers import StreamConsumers
from headwater.delivery.state import ConsumerState
from headwater.delivery.timers import Timers
from headwater.errors import Error
from headwater.model.consumer import AckPolicy
from headwater.model.stream import Retention
from headwater.stream import committer
from headwater.stream.stream import Stream
from simulation.disks import Fault
from simulation.voyage import Machine
from stream.streams import config_of, everything
from waits import until

ROUNDS = int(os.environ.get("HEADWATER_ROUNDS", "12"))
STREAMS = (Retention.LIMITS, Retention.WORKQUEUE, Retention.INTEREST, Retention.LIMITS)
CONSUMERS = {
    Retention.LIMITS: (("C", AckPolicy.EXPLICIT), ("A", AckPolicy.ALL), ("D", AckPolicy.EXPLICIT)),
    Retention.INTEREST: (("C", AckPolicy.EXPLICIT), ("D", AckPolicy.EXPLICIT)),
    Retention.WORKQUEUE: (("C", AckPolicy.EXPLICIT),),
}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "RETRY_FIRST_S", 0.001)
    monkeypatch.setattr(committer, "RETRY_MOST_S", 0.001)


class Promised:
    """What the client of one consumer was promised."""

    def __init__(self) -> None:
        self.held: dict[int, Delivery] = {}
        """Delivered and not acknowledged, by sequence."""
        self.acked: set[int] = set()
        """An acknowledgement was sent, and nothing is known of it."""
        self.confirmed: set[int] = set()
        self.asked: dict[bytes, list[int]] = {}
        """What the double acks that are under way settle, by their reply."""


class Shore:
    """Several streams with consumers on one machine, and what their clients were promised."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.machine = Machine(directory, seed)
        self.desks: list[Desk] = []
        self.timers: list[Timers] = []
        self.promised: dict[tuple[int, str], Promised] = {}
        self.stored: list[set[int]] = [set() for _ in STREAMS]
        self._count = 0
        self._folds: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Open the streams with the states that their logs hold."""
        self.desks.clear()
        for index, retention in enumerate(STREAMS):
            clock = self.machine.workshop.clock
            stream = await self.machine.workshop.open(config_of(name=f"S{index}", retention=retention))
            frames: list[bytes] = []
            timers = Timers(clock)
            advisories = ConsumerAdvisories(frames.append, clock)
            outlet = KeptOutlet()
            consumers = StreamConsumers(stream, outlet, timers, clock, advisories)
            desk = Desk(self.machine.workshop, consumers, outlet)
            self.timers.append(timers)
            self.desks.append(desk)
            for name, policy in CONSUMERS[retention]:
                consumer = desk.make(name, ack_policy=policy, ack_wait=5 * SECOND)
                recorded = stream.consumers.recorded(name)
                if recorded:
                    consumer.state = ConsumerState.restore(consumer.config, recorded, clock.steady_ns())
                consumers.add(consumer)
                self.promised.setdefault((index, name), Promised())

    async def stop(self, *, power_cut: bool) -> None:
        """Let the process stop without a word, and start another on what it leaves."""
        self.machine.disk.break_always(Fault.REFUSED)
        for desk, timers in zip(self.desks, self.timers, strict=True):
            timers.close()
            with suppress(Error):
                await desk.consumers.close()
            with suppress(Error):
                await desk.stream.close()
        self.take_confirmations()
        self.timers.clear()
        now_ns = self.machine.workshop.clock.now_ns()
        if power_cut:
            self.machine.cut_power()
        else:
            self.machine.kill()
        if self.rng.random() < 0.7:  # else it was set back
            clock = self.machine.workshop.clock
            clock.advance(now_ns - clock.now_ns())
        for promised in self.promised.values():
            promised.held.clear()
            promised.asked.clear()
        await self.open()

    async def step(self) -> None:
        """Do something to one stream."""
        index = self.rng.randrange(len(self.desks))
        name = self.rng.choice([name for name, _ in CONSUMERS[STREAMS[index]]])
        deed = self.rng.choice(
            (self.publish, self.pull, self.pull, self.ack, self.ack, self.ack, self.repeat, self.fold)
        )
        await deed(index, name)
        if self.rng.random() < 0.3:
            self.pass_time()
        if self.rng.random() < 0.3:
            await asyncio.sleep(self.rng.random() * 0.003)
        self.collect()

    async def publish(self, index: int, name: str) -> None:
        """Publish some messages, and note which were acknowledged."""
        count, stream = self.rng.randrange(1, 4), self.desks[index].stream
        first = self._count
        self._count += count
        stream.publishing.offer([(b"s", b"p%d" % n, b"", b"%d" % n) for n in range(first, self._count)])
        with suppress(Error):
            await stream.publishing.settled()
        self.take_confirmations()

    async def fold(self, index: int, name: str) -> None:
        """Have a checkpoint written while everything continues."""
        fold = asyncio.create_task(self._fold(self.desks[index].stream))
        self._folds.add(fold)
        fold.add_done_callback(self._folds.discard)

    async def _fold(self, stream: Stream) -> None:
        with suppress(Error):
            await stream.folder.fold(force_checkpoint=True)

    async def pull(self, index: int, name: str) -> None:
        """Ask for some messages."""
        desk = self.desks[index]
        consumer: Any = desk.consumers.get(name)
        desk.pull(consumer, name.encode(), batch=self.rng.randrange(1, 4), no_wait=True)

    async def ack(self, index: int, name: str) -> None:
        """Acknowledge one message, mostly so that a confirmation is due."""
        promised = self.promised[index, name]
        if promised.held:
            self._ack(index, name, self.rng.choice(sorted(promised.held)))

    async def repeat(self, index: int, name: str) -> None:
        """Repeat a double ack that was not confirmed."""
        promised = self.promised[index, name]
        if promised.asked:
            reply = self.rng.choice(sorted(promised.asked))
            self._ack(index, name, promised.asked[reply][-1])

    def _ack(self, index: int, name: str, seq: int) -> None:
        promised = self.promised[index, name]
        self._count += 1
        reply = b"a.%d.%b.%d" % (index, name.encode(), self._count) if self.rng.random() < 0.8 else b""
        settled = [seq]
        if dict(CONSUMERS[STREAMS[index]])[name] is AckPolicy.ALL:
            settled = sorted({s for s in promised.held.keys() | self.stored[index] if s <= seq} | {seq})
        promised.acked.update(settled)
        if reply:
            promised.asked[reply] = settled
        subject = b"$JS.ACK.S%d.%b.1.%d.%d.0.0" % (index, name.encode(), seq, seq)
        if seq in promised.held:
            subject = promised.held[seq].reply
        for each in settled:
            promised.held.pop(each, None)
        self.desks[index].consumers.acks.items.append((subject, reply, b"", b"+ACK"))
        self.desks[index].consumers.acks.flush()

    def pass_time(self) -> None:
        """Have whatever is due done."""
        clock = self.machine.workshop.clock
        clock.advance(self.rng.choice((1, 6)) * SECOND // 2)
        for desk in self.desks:
            for consumer in list(desk.consumers):
                consumer.tick(clock.now_ns())
            desk.consumers.recorder.record()

    def collect(self) -> None:
        """Have the clients take what was sent to them."""
        for index, desk in enumerate(self.desks):
            for delivery in desk.outlet.take():
                if delivery.subject:
                    name = delivery.to.decode()
                    self._received(self.promised[index, name], delivery.tokens[1], delivery)
        self.take_confirmations()

    def _received(self, promised: Promised, seq: int, delivery: Delivery) -> None:
        assert seq not in promised.confirmed, f"{delivery} came again after its ack was confirmed"
        promised.held[seq] = delivery

    def take_confirmations(self) -> None:
        """Note what was confirmed."""
        frames = self.machine.workshop.answers
        rest = bytes(frames.frames)
        frames.frames.clear()
        while rest:
            line, rest = rest.split(b"\r\n", 1)
            _, reply, *_, size = line.split(b" ")
            body, rest = rest[: int(size)], rest[int(size) + 2 :]
            if reply.startswith(b"a."):
                _, index, name, _ = reply.split(b".")
                promised = self.promised[int(index), name.decode()]
                promised.confirmed.update(promised.asked.pop(reply, ()))
            elif b'"seq"' in body and b'"error"' not in body:
                where = int(body.split(b'"stream":"S', 1)[1].split(b'"', 1)[0])
                self.stored[where].add(int(body.split(b'"seq":', 1)[1].split(b",")[0].split(b"}")[0]))

    async def check(self) -> None:
        """Deliver all that is owed, and compare it with what was promised."""
        self.machine.disk.heal()
        clock = self.machine.workshop.clock
        for index, desk in enumerate(self.desks):
            await until(lambda desk=desk: desk.stream.publishing.is_storing)  # type: ignore[misc]
            clock.advance(60 * SECOND)
            for name, _ in CONSUMERS[STREAMS[index]]:
                consumer: Any = desk.consumers.get(name)
                consumer.tick(clock.now_ns())
                desk.pull(consumer, name.encode(), batch=100_000, expires=SECOND)
            for _ in range(1000):
                await desk.rest()
                self.collect()
                if self._has_come(index):
                    break
                await asyncio.sleep(0.01)
            there = {message.seq for message in await everything(desk.stream)}
            self._compare(index, there)

    def _has_come(self, index: int) -> bool:
        """Return whether each client has received all unacknowledged messages."""
        clients = [self.promised[index, name] for name, _ in CONSUMERS[STREAMS[index]]]
        return all(self.stored[index] - client.acked <= client.held.keys() for client in clients)

    def _compare(self, index: int, there: set[int]) -> None:
        for name, _ in CONSUMERS[STREAMS[index]]:
            promised = self.promised[index, name]
            owed = self.stored[index] - promised.acked
            assert owed <= there, f"S{index} {name}: {owed - there} are gone and were never acknowledged"
            assert owed <= promised.held.keys(), f"S{index} {name}: {owed - promised.held.keys()} never came"
            assert not promised.confirmed & promised.held.keys()
            if STREAMS[index] is Retention.WORKQUEUE:
                assert not promised.confirmed & there, "confirmed acks keep messages out of a work queue"

    async def close(self) -> None:
        """Stop everything."""
        for desk, timers in zip(self.desks, self.timers, strict=True):
            timers.close()
            await desk.consumers.close()
            await desk.stream.close()
        self.machine.workshop.close()


async def run(directory: Path, seed: int, faults: Sequence[Fault]) -> None:
    """Run streams and consumers on a disk that fills and heals, with restarts."""
    shore = Shore(directory, seed)
    await shore.open()
    for _ in range(shore.rng.randrange(1, 4)):
        for _ in range(3):
            for _ in range(shore.rng.randrange(25)):
                await shore.step()
            shore.machine.disk.break_always(shore.rng.choice(faults))
            for _ in range(shore.rng.randrange(25)):
                await shore.step()
            if shore.rng.random() < 0.7:
                shore.machine.disk.heal()
        if shore.rng.random() < 0.7:
            await shore.stop(power_cut=shore.rng.random() < 0.5)
    if shore.rng.random() < 0.5:
        shore.machine.disk.heal()
        for desk in shore.desks:
            await until(lambda desk=desk: desk.stream.publishing.is_storing)  # type: ignore[misc]
        shore.pass_time()
        for _ in range(20):
            await shore.step()
        await shore.stop(power_cut=False)
    await shore.check()
    await shore.close()


async def test_acks_and_deliveries_survive_a_disk_that_fills_and_heals(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        seed = secrets.randbits(32)
        try:
            await run(tmp_path / str(number), seed, (Fault.FULL, Fault.REFUSED, Fault.TORN))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


async def test_what_was_delivered_on_a_full_disk_is_delivered_again_after_a_restart(tmp_path: Path) -> None:
    shore = Shore(tmp_path / "one", 1)
    await shore.open()
    for index in range(len(STREAMS)):
        await shore.publish(index, "C")
    shore.machine.disk.break_always(Fault.FULL)
    for index, desk in enumerate(shore.desks):
        await shore.publish(index, "C")
        consumer: Any = desk.consumers.get("C")
        desk.pull(consumer, b"C", batch=10, expires=SECOND)
        await until(lambda desk=desk: bool(desk.outlet.sent))  # type: ignore[misc]
    shore.pass_time()
    shore.machine.disk.heal()
    for desk in shore.desks:
        await until(lambda desk=desk: desk.stream.publishing.is_storing)  # type: ignore[misc]
    for index in range(len(STREAMS)):
        await shore.publish(index, "C")
    shore.pass_time()
    for desk in shore.desks:
        await desk.rest()
    await shore.stop(power_cut=True)
    await shore.check()
    await shore.close()


async def test_a_repeated_ack_is_confirmed_only_once_it_is_durable(tmp_path: Path) -> None:
    shore = Shore(tmp_path / "one", 1)
    await shore.open()
    desk, promised = shore.desks[0], shore.promised[0, "C"]
    await shore.publish(0, "C")
    shore.machine.disk.break_always(Fault.FULL)
    await shore.publish(0, "C")
    await until(lambda: not desk.stream.publishing.is_storing)
    consumer: Any = desk.consumers.get("C")
    desk.pull(consumer, b"C", batch=1)
    await until(lambda: bool(desk.outlet.sent))
    shore.collect()
    (seq,) = promised.held
    for n in range(2):
        desk.consumers.acks.items.append((b"$JS.ACK.S0.C.1.%d.1.0.0" % seq, b"a.0.C.%d" % n, b"", b"+ACK"))
        promised.asked[b"a.0.C.%d" % n] = [seq]
        desk.consumers.acks.flush()
        shore.pass_time()
        await asyncio.sleep(0.01)
        shore.take_confirmations()
    assert promised.confirmed == set()
    shore.machine.disk.heal()
    await until(lambda: desk.stream.publishing.is_storing)
    desk.consumers.acks.items.append((b"$JS.ACK.S0.C.1.%d.1.0.0" % seq, b"a.0.C.9", b"", b"+ACK"))
    promised.asked[b"a.0.C.9"] = [seq]
    promised.acked.add(seq)
    desk.consumers.acks.flush()
    await desk.stream.publishing.settled()
    shore.take_confirmations()
    assert promised.confirmed == {seq}
    await shore.stop(power_cut=True)
    await shore.check()
    await shore.close()


async def test_an_ack_that_is_confirmed_while_a_checkpoint_waits_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint holds the consumers' states at the time of the log rotation, with unrecorded changes.

    A refused write reverts them before the checkpoint is written. Later records must still apply
    to the checkpoint.
    """
    shore = Shore(tmp_path / "one", 1)
    await shore.open()
    desk, promised = shore.desks[0], shore.promised[0, "C"]
    consumer: Any = desk.consumers.get("C")
    await shore.publish(0, "C")
    shore.pass_time()
    await desk.rest()
    desk.pull(consumer, b"C", batch=10, no_wait=True)
    await until(lambda: consumer.state.num_ack_pending)
    store, folder, is_folding, go_on = (
        desk.stream._store,
        desk.stream.folder,
        asyncio.Event(),
        asyncio.Event(),
    )
    change_table = store.change_table

    async def slowly(*given: Any) -> None:
        is_folding.set()
        await go_on.wait()
        await change_table(*given)

    monkeypatch.setattr(store, "change_table", slowly)
    folding = asyncio.create_task(folder.fold(force_checkpoint=True))
    await is_folding.wait()
    shore.machine.disk.break_always(Fault.REFUSED)
    await shore.publish(0, "C")
    shore.machine.disk.heal()
    await until(lambda: desk.stream.publishing.is_storing and not consumer.state.num_ack_pending)
    go_on.set()
    await folding
    desk.outlet.take()
    desk.pull(consumer, b"C", batch=10, no_wait=True)
    await until(lambda: consumer.state.num_ack_pending)
    await desk.rest()
    shore.collect()
    for seq in sorted(promised.held):
        shore._ack(0, "C", seq)
    asked = {b"a.0.C.%d" % seq: [seq] for seq in shore.stored[0]}
    for reply, (seq,) in asked.items():
        promised.asked[reply] = [seq]
        desk.consumers.acks.items.append((b"$JS.ACK.S0.C.1.%d.1.0.0" % seq, reply, b"", b"+ACK"))
        desk.consumers.acks.flush()
    await desk.rest()
    shore.take_confirmations()
    assert promised.confirmed == shore.stored[0]
    await shore.stop(power_cut=True)
    await shore.check()
    await shore.close()
