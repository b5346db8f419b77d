"""A stream in use on a disk that fails, and what its callers were promised, to be checked afterwards."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from headwater.errors import Error
from headwater.model.message import Message
from headwater.model.stream import StreamConfig
from headwater.stream.retention.removal import FILE_OVERHEAD
from headwater.stream.stream import Stream
from simulation.disks import BreakableDisk, PowerCut
from stream.streams import SECOND, Answers, Workshop, config_of, everything, headers

CONFIG = config_of(duplicate_window=3600 * SECOND)


class Machine:
    """A disk, and streams on it until its power is cut."""

    def __init__(self, directory: Path, seed: int = 0) -> None:
        directory.mkdir(exist_ok=True)
        self.directory = directory
        self.rng = random.Random(seed)
        self.disk = BreakableDisk(directory, seed)
        self.workshop = self._workshop()

    def _workshop(self) -> Workshop:
        return Workshop(self.directory, disk=self.disk, answers=HeardAnswers(self.disk), threads=1)

    def cut_power(self) -> None:
        """Let everything stop, and leave of the files what a power cut leaves."""
        self.workshop.close()
        self.disk.power_cut(self.rng)
        self.disk.heal()
        self.workshop = self._workshop()

    def kill(self) -> None:
        """Let the process stop: what was written is there, synced or not."""
        self.workshop.close()
        self.disk = BreakableDisk(self.directory)
        self.workshop = self._workshop()


class HeardAnswers(Answers):
    """Answers that are received only while the machine runs."""

    def __init__(self, disk: BreakableDisk) -> None:
        super().__init__()
        self._disk = disk

    def __call__(self, frames: bytes) -> None:
        if not self._disk._stopped:
            super().__call__(frames)


class Voyage:
    """Publishes, removals and folds in a fixed order, and what was promised about them."""

    def __init__(self, machine: Machine, config: StreamConfig = CONFIG) -> None:
        self.machine = machine
        self.config = config
        self.promised: dict[int, Message] = {}
        """Acknowledged, by sequence."""
        self.removed: set[int] = set()
        """Acknowledged as removed."""
        self.in_doubt: set[int] = set()
        """Asked to be removed, with no answer or an error."""
        self.offered: set[bytes] = set()
        """The data of everything offered that was not refused."""
        self.refused: set[bytes] = set()
        self.errors = 0
        self._count = 0
        self.streams: list[Stream] = []

    @property
    def stream(self) -> Stream:
        """Return the stream as it was last opened."""
        return self.streams[-1]

    # What is done.

    async def open(self) -> None:
        self.streams.append(await self.machine.workshop.open(self.config))

    async def run(self, *, closing: bool = True) -> None:
        """Do everything that a stream does to its disk; errors are those that callers get."""
        await self.open()
        await self.publish(3)
        await self.publish(2)
        await self.tried(self.stream.folder.fold)
        await self.publish(4)
        await self.remove(2)
        await self.publish(1)
        await self.tried(lambda: self.stream.folder.fold(force_checkpoint=True))
        await self.publish(3)
        await self.purge("s.1")
        await self.tried(self.stream.folder.fold)
        await self.tried(self.stream.folder.tidy)
        await self.publish(2)
        await self.tried(lambda: self.stream.folder.fold(force_checkpoint=True))
        await self.remove(9)
        await self.tried(self.stream.folder.tidy)
        await self.publish(2)
        if closing:
            await self.close()

    async def close(self) -> None:
        """Close, whatever the disk says to it."""
        with suppress(Error):
            await self.stream.close()

    async def tried(self, work: Callable[[], Awaitable[object]]) -> None:
        """Have something done in the background."""
        try:
            await work()
        except Error:
            self.errors += 1

    async def publish(self, count: int) -> None:
        """Publish some messages, and record what each publisher was answered."""
        items = []
        for _ in range(count):
            self._count += 1
            number = self._count
            block = headers(Nats_Msg_Id=f"id {number}") if number % 2 else b""
            items.append((b"s.%d" % (number % 3), b"reply", block, b"message %d" % number))
        self.offered.update(item[3] for item in items)
        self.stream.publishing.offer([(s, b"r%d" % n, h, d) for n, (s, _, h, d) in enumerate(items)])
        with suppress(Error):
            await self.stream.publishing.settled()
        answers = self.machine.workshop.answers.take()
        for n, (subject, _, block, data) in enumerate(items):
            answer = answers.get(b"r%d" % n)
            if answer is None:
                if self.machine.disk._stopped:
                    raise PowerCut
                raise AssertionError("a publisher got no answer")
            if "error" in answer:
                self.errors += 1
                self.refused.add(data)
                continue
            seq = answer["seq"]
            assert seq not in self.promised, "a sequence was given twice"
            assert "duplicate" not in answer
            self.promised[seq] = Message(seq, self._time_of(seq), subject, block, data)

    def _time_of(self, seq: int) -> int:
        """Return when a message just acknowledged was stored, as the head still has it in memory."""
        entry = self.stream._store.head.entry_at(seq)
        assert entry is not None
        assert entry.run is not None
        return int(entry.run.ts[int(entry.run.seqs.searchsorted(seq))])

    async def remove(self, seq: int) -> None:
        """Remove one message."""
        self.in_doubt.add(seq)
        with suppress(Error):
            if await self.stream.retention.remove(seq):
                self.removed.add(seq)

    async def purge(self, pattern: str) -> None:
        """Purge a subject."""
        chosen = {seq for seq, message in self.promised.items() if message.subject.decode() == pattern}
        self.in_doubt |= chosen
        with suppress(Error):
            await self.stream.retention.purge(filter=pattern)
            self.removed |= chosen

    # What must hold afterwards.

    async def check(self) -> None:
        """Every promise is kept, and the stream's sums are those of what it holds."""
        found = await everything(self.stream)
        seqs = [message.seq for message in found]
        assert seqs == sorted(set(seqs))
        by_seq = {message.seq: message for message in found}
        for seq, message in self.promised.items():
            if seq not in self.in_doubt:
                assert by_seq.get(seq) == message, f"{seq} was acknowledged"
        assert not self.removed & set(seqs), "what was removed is back"
        for message in found:
            assert message.data in self.offered
            assert message.data not in self.refused, f"{message} was refused"
        assert len({message.data for message in found}) == len(found), "a message is there twice"
        await self._check_sums(found)

    async def check_unless_broken(self) -> None:
        """Check, if the disk lets us read."""
        with suppress(Error):
            await self.check()

    async def _check_sums(self, found: list[Message]) -> None:
        state = await self.stream.reading.state()
        # What a power cut left as zeros or garbage may have been a batch, as far as the log can tell.
        lost = set(state.lost.msgs) if state.lost else set()
        assert not lost & (set(self.promised) | {message.seq for message in found})
        assert state.messages == len(found)
        assert state.bytes == sum(FILE_OVERHEAD.of(m.subject, m.headers, m.data) for m in found)
        assert self.stream.reading.subject_counts(">") == Counter(m.subject for m in found)
        assert state.last_seq >= max(self.promised, default=0)
        if found:
            assert state.first_seq == found[0].seq
            assert len(self.stream.reading.deleted()) == state.last_seq - state.first_seq + 1 - len(found)
            for subject in self.stream.reading.subject_counts(">"):
                newest = max(m.seq for m in found if m.subject == subject)
                last = await self.stream.reading.last(subject.decode())
                assert last is not None
                assert last.seq == newest

    async def check_it_goes_on(self) -> None:
        """Publishes are taken, without a restart, once the disk allows it."""
        async with asyncio.timeout(60):
            while self.stream._committer.failure is not None:
                await asyncio.sleep(0.001)
        errors = self.errors
        await self.publish(3)
        assert self.errors == errors, "the stream does not store again"
        await self.stream.folder.fold(force_checkpoint=True)
        await self.stream.folder.tidy()
        await self.check()


async def until_power_cut(voyage: Voyage) -> bool:
    """Run a voyage; return whether the power was cut on the way."""
    try:
        await voyage.run()
    except PowerCut:
        pass
    except Error:
        # Returned to a caller by a task whose power had just failed.
        if not voyage.machine.disk._stopped:
            raise
    finally:
        for stream in voyage.streams:
            stream._committer.task.cancel()
            await asyncio.wait([stream._committer.task])
            if not stream._committer.task.cancelled():
                stream._committer.task.exception()
    return voyage.machine.disk._stopped
