"""The machine that an engine runs on: disk, clock, nats-server, replicator, and the engine's many lives."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
import os
import random
import secrets
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from headwater.bus.connection import Connection
from headwater.bus.options import ConnectOptions
from headwater.control.ownership import Ownership
from headwater.control.reserve import Reserve
from headwater.control.store_lock import StoreLock
from headwater.engine_parts import open_parts
from headwater.monitor.engine_monitor import EngineMonitor
from headwater.replication.driver import Driver
from headwater.replication.exchange import Exchange
from headwater.replication.work import Receipt, Work
from headwater.replication.worker.transfer import transfer
from headwater.seat import Seat, Server, open_seat
from headwater.settings import Settings
from simulation.engine.bus import REPLICATORS, MemoryClient, MemoryReconnector, MemoryServer
from simulation.engine.hashes import number_objects
from simulation.engine.loop import LIFE, SimLoop
from simulation.engine.power import Medium
from simulation.engine.shim import Shim

logger = logging.getLogger(__name__)

CLUSTER = "sim-cluster"
START_NS = 1_700_000_000_000_000_000
SECRET = "what the engine and its replicator know"
URL = "nats://127.0.0.1:1"
SMALL = (
    ("headwater.stream.replica.replica", "FOLD_BYTES", 6000),
    ("headwater.replication.worker.transfer", "LEAST_LINKED_BYTES", 2000),
    ("headwater.replication.worker.result", "INLINE_BYTES", 3000),
    ("headwater.table.schema", "CHECKPOINT_COMMITS", 6),
    ("headwater.stream.folder", "LARGE_LOG", 4000),
    ("headwater.stream.folder", "MOST_SEGMENTS", 6),
    ("headwater.control.housekeeper", "EXPIRE_TICK_S", 0.5),
)
"""What is made small or slow, so that short runs reach what otherwise takes many messages."""
COUNTED = (
    ("headwater.stream.folder", "Fold", "_move", "fold"),
    ("headwater.stream.folder", "Fold", "_checkpoint", "checkpoint"),
    ("headwater.table.table", "Table", "rewrite", "compaction"),
    ("headwater.table.delta_log", "DeltaLog", "_remove_covered", "delta checkpoint"),
    ("headwater.stream.committer", "Committer", "_roll_back", "rollback"),
)
"""What the engine does on its own, and how a run counts it: runs in which it never happens show nothing."""
_T = TypeVar("_T")


class BrokenPromiseError(AssertionError):
    """The engine broke a promise."""


async def within(work: Awaitable[_T], seconds: float, what: str) -> _T:
    """Return the result of work; one that takes longer, in virtual time, is a broken promise with a name.

    No busy machine makes it longer: time passes only when nothing is left to do.
    """
    try:
        return await asyncio.wait_for(work, seconds)
    except TimeoutError:
        raise BrokenPromiseError(f"{what} stalled for {seconds:.0f} s") from None


class InlineCluster:
    """Runs transfers in this process, as Spark's executors run them in theirs."""

    slots = 2
    task_bytes = 0

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts

    def run(self, works: Sequence[Work]) -> list[Receipt]:
        """Return one receipt for each piece of work."""
        receipts = []
        for work in works:
            receipt = transfer(work)
            self._counts["copy failed" if receipt.error else "copy done"] += 1
            self._counts["copy linked"] += bool(receipt.linked_bytes)
            self._counts["copy staged"] += bool(receipt.path)
            self._counts["copy adopted"] += bool(receipt.adopted or receipt.sums)
            receipts.append(receipt)
        return receipts

    def check(self, sql: tuple[str, str, str, bool]) -> str:
        """Accept any SQL: no stream here has some."""
        return ""


class World:
    """All that a run happens in."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.store = root / "store"
        self.seed = seed
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.loop = SimLoop(seed)
        self.shim = Shim()
        self.server = MemoryServer(random.Random(seed + 1))
        self.clock_offset_ns = 0
        self.latest_ns = 0
        """The farthest that the clock ever was."""
        self.life = 0
        self.seat: Seat | None = None
        self.ready = asyncio.Event()
        self.problem: BaseException | None = None
        """What the present life failed with."""
        self.ended = self.loop.create_future()
        """Done when the present life is over."""
        self.is_healthy = True
        """Whether nothing is wrong with disk and power from now on."""
        self.history: list[str] = []
        self.deaths: dict[int, float] = {}
        """When each life ended."""
        self.broken: asyncio.Future[None] = self.loop.create_future()
        """Fails with the first promise that is found broken."""
        self._lives = itertools.count(1)
        self._ending: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._medium: Medium | None = None
        self._urandom = random.Random(seed + 2)
        self._replicator_life = 0
        self.store_id = ""
        self.settings = Settings(
            store=self.store,
            memory_dir=root / "memory",
            nats_url=URL,
            leaf_url=URL,
            replicator="submitted",
            replication_secret=SECRET,
            stan=CLUSTER,
            stan_hb_interval_s=5.0,
            stan_hb_timeout_s=2.0,
            fold_interval_s=self.rng.choice((2.0, 10.0, 30.0)),
            fold_messages=self.rng.choice((20, 100)),
            compact_interval_s=self.rng.choice((3.0, 10.0)),
            erase_interval_s=self.rng.choice((0.0, 5.0)),
            erase_grace_s=self.rng.choice((0.0, 5.0, 20.0)),
            target_file_bytes=64 * 1024,
            read_cache_bytes=self.rng.choice((0, 1 << 16, 1 << 20)),
        )

    # What time it is.

    def now_ns(self) -> int:
        """Return the wall clock's time."""
        now = START_NS + int(self.loop.time() * 1e9) + self.clock_offset_ns
        self.latest_ns = max(self.latest_ns, now)
        return now

    def jump(self, nanoseconds: int) -> None:
        """Have the wall clock jump."""
        self.clock_offset_ns += nanoseconds
        self.note(f"clock jumps by {nanoseconds / 1e9:.1f} s")

    def note(self, text: str) -> None:
        """Record an event, to analyse a failure."""
        self.history.append(f"{self.loop.time():9.3f} s op {self.shim.operations}: {text}")
        logger.info("%s", self.history[-1])

    def patch(self) -> None:
        """Replace randomness, time and sockets of this process, which ends with the run."""
        random.seed(self.seed)
        chance = self._urandom
        MemoryReconnector.server = self.server
        MemoryReconnector.mute = staticmethod(lambda: self.shim.dead)
        replaced: list[tuple[object, str, object]] = [
            (time, "time_ns", self.now_ns),
            (time, "time", lambda: self.now_ns() / 1e9),
            (time, "monotonic", self.loop.time),
            (time, "monotonic_ns", lambda: int(self.loop.time() * 1e9)),
            (time, "sleep", lambda seconds: None),
            (os, "urandom", chance.randbytes),
            (uuid, "uuid4", self._uuid),
            (secrets, "token_bytes", lambda n=32: chance.randbytes(n)),
            (secrets, "token_hex", lambda n=32: chance.randbytes(n).hex()),
            (secrets, "randbits", chance.getrandbits),
            (secrets, "choice", chance.choice),
            (secrets, "randbelow", chance.randrange),
            (import_module("headwater.stream.store"), "uuid4", self._uuid),
            (import_module("headwater.bus.connection"), "Reconnector", MemoryReconnector),
            (import_module("headwater.bus.leaf"), "Reconnector", MemoryReconnector),
            *((import_module(module), name, value) for module, name, value in SMALL),
        ]
        for owner, name, value in replaced:
            assert hasattr(owner, name), f"{owner}.{name} is gone"
            setattr(owner, name, value)
        for module, owner, name, what in COUNTED:
            self._count(getattr(import_module(module), owner), name, what)
        number_objects()
        self.loop.on_turn = self._look
        self.loop.set_exception_handler(self._unhandled)

    def _count(self, owner: type, name: str, what: str) -> None:
        """Have each call of a method counted."""
        call = getattr(owner, name)

        def counted(*args: Any, **named: Any) -> Any:
            self.counts[what] += 1
            return call(*args, **named)

        setattr(owner, name, counted)

    def _uuid(self) -> uuid.UUID:
        return uuid.UUID(bytes=self._urandom.randbytes(16), version=4)

    def _unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report an unhandled exception as a finding, unless the simulated process was dead."""
        error = context.get("exception")
        if error is None or self.shim.dead:
            return
        self.counts["unhandled"] += 1
        if context["message"].startswith("Exception in callback"):
            self.fail(error)

    # The engine's lives.

    def _look(self) -> None:
        """See whether the process was killed since the last turn."""
        if self.shim.dead and self.life and self.life not in self.loop.dead_lives:
            self.bury()

    def spawn(self, work: Coroutine[Any, Any, Any], life: int = 0) -> asyncio.Task[Any]:
        """Run something as part of a life of the engine, or outside of it."""
        context = contextvars.copy_context()
        context.run(LIFE.set, life)
        return self.loop.create_task(work, context=context)

    def begin(self) -> None:
        """Make the disk, with nothing on it."""
        self.store.mkdir(parents=True)
        self.settings.memory_dir.mkdir(parents=True, exist_ok=True)
        self._medium = Medium(self.store)
        self.shim.begin(self.store, self.seed)

    def start(self) -> None:
        """Start the engine."""
        assert self._task is None
        self.life = next(self._lives)
        self.ready = asyncio.Event()
        self._ending = asyncio.Event()
        self.problem = None
        self.ended = self.loop.create_future()
        self.counts["start"] += 1
        self.note(f"life {self.life} starts")
        self._task = self.spawn(self._serve(self.life), self.life)

    async def _serve(self, life: int) -> None:
        try:
            async with AsyncExitStack() as stack:
                lock = StoreLock(self.store)
                lock.take()
                stack.callback(lock.release)
                ownership = Ownership(self.store)
                ownership.take()
                # A small one: every copy of the medium holds it.
                reserve = Reserve(self.store, size=32 << 10, needed=8 << 10)
                monitor = EngineMonitor(self.settings, self.store)
                parts = await open_parts(self.settings, ownership, reserve, stack, monitor)
                options = ConnectOptions(servers=(URL,), name="engine")
                server = Server(options, options, URL)
                self.store_id = parts.catalog.store_id
                async with open_seat(parts, self.settings, server) as seat:
                    self.seat = seat
                    self.ready.set()
                    assert self._ending is not None
                    await self._ending.wait()
                    self.seat = None
        except Exception as error:
            if self.shim.dead:
                await asyncio.Event().wait()  # killed meanwhile: nobody comes to know
            self.problem = error
            self.shim.die()  # a process that fails ends, with all that it had open
            self.counts["start or stop failed"] += 1
            self.note(f"life {life} fails: {type(error).__name__}: {error}")
            logger.debug("failed", exc_info=True)
        finally:
            if life == self.life and (not self.shim.dead or self.problem is not None):
                self.seat = None
                self._task = None
                self._cut_links(life)
                self.loop.dead_lives.add(life)
                self._over(life)

    def _over(self, life: int) -> None:
        self.deaths[life] = self.loop.time()
        if not self.ended.done():
            self.ended.set_result(None)

    def guarded(self, call: Callable[..., object], *args: object) -> None:
        """Call something that may find a promise broken."""
        try:
            call(*args)
        except Exception as error:
            self.fail(error)

    def check(self, task: asyncio.Task[Any]) -> None:
        """Take what a task failed with as a finding."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """End the run with a finding."""
        if not self.broken.done():
            self.note(f"FOUND {type(error).__name__}: {error}")
            self.broken.set_exception(error)

    @property
    def is_running(self) -> bool:
        """Return whether there is a process."""
        return self._task is not None

    async def stop(self) -> None:
        """End the engine in order."""
        if self._task is None:
            return
        self.note("stop")
        self.counts["stop"] += 1
        assert self._ending is not None
        task = self._task
        self._ending.set()
        while self._task is task:
            await asyncio.sleep(0.05)

    def kill(self) -> None:
        """End the engine's process between two operations."""
        self.shim.die()
        self._look()

    def bury(self) -> None:
        """Leave nothing of a killed life but its files."""
        self.loop.dead_lives.add(self.life)
        self._cut_links(self.life)
        self.seat = None
        self._task = None
        self._over(self.life)
        self.counts["kill"] += 1
        self.note(f"life {self.life} was killed")

    def _cut_links(self, life: int) -> None:
        for link in list(self.server.links):
            if link.life == life:
                link.lose()

    def recover_disk(self, *, power_cut: bool) -> None:
        """Have the disk as the next life finds it: all that was written, or what a power cut leaves of it."""
        assert not self.is_running
        with self.shim.aside():
            dead = self.root / f"dead-{self.life}"
            assert self._medium is not None
            self._medium.replay(self.shim.trace())
            self.store.rename(dead)
            if power_cut:
                self._medium.cut(self.rng, self.store)
                self._medium = Medium(self.store)
                shutil.rmtree(self.settings.memory_dir)
                self.settings.memory_dir.mkdir()
                self.counts["power cut"] += 1
                self.note("the power was cut")
            else:
                # Another copy: what the killed life has open must not meet what the next one does.
                _copy(dead, self.store)
                self._medium.rebind(self.store)
            shutil.rmtree(dead)
        self.shim.begin(self.store, self.seed + 1000 * self.life)

    # The replicator.

    def start_replicator(self) -> None:
        """Start a replicator, once there is a store id."""
        self._replicator_life = REPLICATORS + next(self._lives)
        self.spawn(self._replicate(), self._replicator_life)

    def end_replicator(self) -> None:
        """Kill the replicator."""
        self.loop.dead_lives.add(self._replicator_life)
        self._cut_links(self._replicator_life)

    async def _replicate(self) -> None:
        while not self.store_id:
            await asyncio.sleep(0.1)
        connection = Connection(
            ConnectOptions(servers=(URL,), name="replicator"), on_disconnected=lambda _: exchange.interrupt()
        )
        cluster = InlineCluster(self.counts)
        exchange = Exchange(connection, self.store_id, "", cluster.slots, secret=lambda: SECRET.encode())
        await connection.connect()
        await Driver(exchange, cluster).drive()

    def client(self, name: str) -> MemoryClient:
        """Return a client of the server."""
        return MemoryClient(self.server, name)


def _copy(source: Path, target: Path) -> None:
    """Copy a tree; hard links stay hard links."""
    known: dict[int, Path] = {}
    target.mkdir()
    for entry in os.scandir(source):
        _copy_entry(entry, target / entry.name, known)


def _copy_entry(entry: os.DirEntry[str], target: Path, known: dict[int, Path]) -> None:
    if entry.is_dir():
        target.mkdir()
        for below in os.scandir(entry.path):
            _copy_entry(below, target / below.name, known)
    elif entry.inode() in known:
        os.link(known[entry.inode()], target)
    else:
        shutil.copyfile(entry.path, target)
        known[entry.inode()] = target
