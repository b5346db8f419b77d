"""Engines that come, go, are suspended and come back on one journal: no acknowledged change is ever lost.

The object store fails at random: a write is refused, is done and reported as failed, or arrives much later,
when other engines have written and trimmed. A model knows which changes were acknowledged. Only one engine
may have acknowledged a change at a time, and whoever takes over must find all of them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.errors import DiskError
from headwater.journal import appender, object_journal
from headwater.journal.appender import JournalFencedError
from headwater.journal.contents import Contents
from headwater.journal.object_journal import ObjectJournal
from headwater.journal.record import ChangePiece, FileOp, RecordKind
from headwater.journal.takeover import TakenOver, Takeover
from headwater.objects.object_error import ObjectError, Problem
from headwater.objects.objects import ObjectInfo
from rounds import choose_seed, rounds

FILES = 6
STEPS = 120


class LateObjects:
    """Objects in memory; a conditional write may fail in each way, and may arrive long after it failed."""

    address = "memory://"

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._objects: dict[str, bytes] = {}
        self._on_the_way: list[tuple[str, bytes]] = []
        """Writes that were reported as failed and arrive later."""
        self.counts: Counter[str] = Counter()
        self.breaks = True

    def arrive(self) -> None:
        """Have some of the late writes arrive."""
        for write in self._chance.sample(self._on_the_way, self._chance.randint(0, len(self._on_the_way))):
            self._on_the_way.remove(write)
            arrived = self._objects.setdefault(*write) is write[1]
            self.counts["arrived late" if arrived else "arrived too late"] += 1

    def get(self, key: str) -> bytes:
        if key not in self._objects:
            raise ObjectError(key, "read", Problem.MISSING)
        return self._objects[key]

    def head(self, key: str) -> ObjectInfo:
        return ObjectInfo(key, len(self.get(key)), "")

    def put_if_absent(self, key: str, data: bytes) -> str:
        fate = self._chance.choices(("done", "refused", "failed", "late"), (8, 1, 1, 1))[0]
        fate = fate if self.breaks else "done"
        self.counts[fate] += 1
        if fate == "late":
            self._on_the_way.append((key, data))
        elif fate != "refused":
            if key in self._objects:
                raise ObjectError(key, "write", Problem.EXISTS)
            self._objects[key] = data
        if fate != "done":
            raise ObjectError(key, "write", Problem.UNREACHABLE)
        return ""

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return (ObjectInfo(key, len(data), "") for key, data in sorted(self._objects.items()))

    def delete(self, key: str) -> None:
        self._objects.pop(key, None)


class ModelEngine:
    """An engine that writes files to the journal and trims it, as the shipper does, one step at a time."""

    def __init__(self, journal: ObjectJournal, taken: TakenOver) -> None:
        self._journal = journal
        self._appender = taken.appender
        self._contents: Contents = taken.rebuilding.contents
        self._keep = taken.keep
        self._floor = 1

    def write(self, name: str, data: bytes, meanwhile: Callable[[DiskError], bool]) -> None:
        """Return once a change is acknowledged; an engine does not give up, so others run meanwhile."""
        position = self._appender.last + 1
        floor = min(self._contents.floor(position), position)
        pieces = (ChangePiece(FileOp.WHOLE, name, 0, data),)
        self._appender.append(RecordKind.CHANGES, pieces, floor, meanwhile)
        self._floor = floor
        self._contents.apply(position, pieces)

    def trim(self) -> None:
        """Remove what the last record says is not needed."""
        self._journal.trim(self._floor, self._keep)


class JournalModel:
    """Some engines, what they acknowledged, and what they may have written besides."""

    def __init__(self, root: Path, seed: str) -> None:
        self.chance = random.Random(seed)
        self.objects = LateObjects(self.chance)
        self._root = root
        self._engines: list[ModelEngine] = []
        self._acknowledged: dict[str, int] = {}
        """For each file the number of the last change that was acknowledged."""
        self._tried = 0
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        """Take random steps, and compare what the last engine finds on a healthy store."""
        for _ in range(STEPS):
            self._step(depth=0)
        self.objects.breaks = False
        self.objects.arrive()
        while not self._take_over():
            pass

    def _step(self, depth: int) -> None:
        match self.chance.choices(("write", "trim", "take over", "arrive"), (12, 3, 1, 2))[0]:
            case "write" if self._engines:
                self._write(self._engine(), depth)
            case "trim" if self._engines:
                self._engine().trim()
            case "take over":
                self._take_over(depth)
            case _:
                self.objects.arrive()

    def _engine(self) -> ModelEngine:
        """Return the engine that runs next, mostly the newest; the others are suspended for long."""
        return self._engines[-1] if self.chance.random() < 0.9 else self.chance.choice(self._engines)

    def _write(self, engine: ModelEngine, depth: int) -> None:
        """Have an engine write; one that has lost the store may not know it yet."""
        self._tried += 1
        number, name = self._tried, f"file{self.chance.randrange(FILES)}"

        def meanwhile(error: DiskError) -> bool:
            if depth < 3 and self.chance.random() < 0.5:
                self._step(depth + 1)
            return self.chance.random() < 0.1  # killed: the outcome stays unknown

        self._engines.remove(engine)  # it is busy until this is over
        try:
            engine.write(name, b"%d" % number, meanwhile)
        except JournalFencedError:
            self.counts["fenced"] += 1
            return
        except DiskError:
            self.counts["killed"] += 1
            return
        self._engines.append(engine)
        self.counts["acknowledged"] += 1
        self._acknowledged[name] = max(self._acknowledged.get(name, 0), number)

    def _take_over(self, depth: int = 3) -> bool:
        """Have another engine take over; others may run while it is held up before it reads."""

        store = self._root / str(self.counts["attempts"])
        store.mkdir()
        self.counts["attempts"] += 1
        journal = ObjectJournal(self.objects, tested=False)  # type: ignore[arg-type]
        # Of a journal with records, the first mark is made before they are read; the last one is made when
        # the store is taken.
        may_wait = iter((depth < 2,) if journal.last() else ())

        def held_up(journal_id: str) -> None:
            waits = next(may_wait, False)
            while waits and self.chance.random() < 0.8:
                self._step(depth + 1)

        attempt = Takeover(journal, store, 0, "", held_up, lambda: False)
        try:
            taken = attempt.take_now()
        except DiskError:
            taken = None
        if taken is None:
            journal.close()
            return False
        self.counts["taken over"] += 1
        found = {path.name: int(path.read_bytes()) for path in store.iterdir()}
        lost = {name: number for name, number in self._acknowledged.items() if found.get(name, 0) < number}
        assert not lost, (lost, found)
        self._engines.append(ModelEngine(journal, taken))
        return True


def test_no_acknowledged_change_is_lost_whoever_owns_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appender, "RETRY_FIRST_S", 0.0)
    monkeypatch.setattr(appender, "RETRY_MOST_S", 0.0)
    monkeypatch.setattr(object_journal, "READERS", 1)  # so that a seed repeats a run
    seed, counts = choose_seed(), Counter[str]()
    for number in range(rounds(20)):
        root = tmp_path / str(number)
        root.mkdir()
        model = JournalModel(root, f"{seed} {number}")
        model.run()
        counts += model.counts + model.objects.counts
    print(seed, dict(counts))
    assert all(counts[what] for what in ("acknowledged", "fenced", "taken over", "arrived late", "failed"))
