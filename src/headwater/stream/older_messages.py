"""Finds the older messages of a subject that a publish will remove, on a thread, before it is stored.

A rollup, or a message over `max_msgs_per_subject`, removes older messages of its subject. The index of
subjects knows how many there are, but not where, unless it keeps their history. Finding them may mean reading
the whole table. So such a publish, and every later one, is held back until a thread has found them. The event
loop reads no file, and messages are stored in the order in which they arrived.

The same holds for a publish that depends on the newest message of a subject, if that was removed and the one
before it must be found, and for an increment of a counter whose total is in a file.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyroaring import BitMap64

from headwater.model import headers as header_block
from headwater.model.subject import Filter
from headwater.stream.publishing.counter import INCREMENT, CounterTotals
from headwater.stream.reader import Reader
from headwater.stream.store import Store
from headwater.stream.subjects import Located
from headwater.wire.frames import Frame

logger = logging.getLogger(__name__)

_ROLLUP = b"Nats-Rollup"
_EXPECTED = b"Nats-Expected-Last-Subject-Sequence"
_EXPECTED_ON = b"Nats-Expected-Last-Subject-Sequence-Subject"
_SCHEDULER = b"Nats-Scheduler"
FEW = 64
"""Up to this many subjects with one message each are found by their sequences; more in one pass."""
AHEAD = 256
"""How many more of the oldest messages are found, if a limit removes one with each publish."""
MOST_HELD_S = 5.0
"""How long publishes are held back at most for a bucket; those that depend on it are refused then."""


StoredUnder = tuple[bytes, bytes]
"""A message's subject in the stream, and its headers."""


@dataclass(frozen=True, slots=True)
class Search:
    """What a thread has to find: the oldest messages of each subject."""

    wanted: Mapping[bytes, int]
    """How many of each subject."""
    start_seq: int
    stop_seq: int
    deleted: BitMap64
    complete: frozenset[bytes]
    """The subjects that have no more messages than wanted."""


@dataclass(frozen=True, slots=True)
class Held:
    """Publishes that are held back, and futures that wait for them to be durable."""

    items: Sequence[Frame]
    promises: list[asyncio.Future[None]]


class OlderMessages:
    """Holds back publishes until the older messages that they remove are found; runs on the event loop."""

    def __init__(
        self,
        store: Store,
        stored_subject: Callable[[bytes], bytes],
        apply: Callable[[Sequence[Frame]], None],
        promise: Callable[[], asyncio.Future[None]],
        counters: Callable[[], CounterTotals | None] = lambda: None,
    ) -> None:
        """Pass publishes to `apply`; `promise` then says whether they become durable.

        `stored_subject` returns the subject that a published message is stored under, `counters` the totals
        that increments are added to.
        """
        self._store = store
        self._reader = Reader(store)
        self._stored_subject = stored_subject
        self._apply = apply
        self._promise = promise
        self._counters = counters
        self._held: deque[Held] = deque()
        """Publishes held back, in the order of their arrival."""
        self._task: asyncio.Task[None] | None = None
        """Looks for older messages; None while nothing is held back."""
        self.nbytes = 0
        """How much is held back."""

    @property
    def is_holding(self) -> bool:
        """Return whether publishes are held back, so that a new one must wait behind them."""
        return self._task is not None

    def holds(self, items: Sequence[Frame]) -> bool:
        """Return whether these publishes are held back: they are offered by themselves later."""
        if self._task is None:
            stored = self._stored(items)
            if not (self._wanted(stored) or self._stale(stored) or self._uncounted(stored)):
                return False
        self._held.append(Held(items, []))
        self.nbytes += _nbytes(items)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"locate {self._store.config.name}")
        return True

    async def locate_copied(self, subjects: Sequence[bytes], headers: Sequence[bytes]) -> None:
        """Find what copied messages will remove; publishes in the meantime are not held back."""
        messages = list(zip(subjects, headers, strict=True))
        await self._locate(messages)
        await self._settle(messages)

    async def drained(self) -> None:
        """Return once all that is held back now was offered."""
        while self._task is not None:
            await asyncio.wait({self._task})

    def promises(self) -> list[asyncio.Future[None]]:
        """Return a future for each held publish: done once it is durable, failed if it cannot be.

        Collect them now: later publishes may be offered much later, when earlier results are forgotten.
        """
        return [self._promised(held) for held in self._held]

    def promise(self) -> asyncio.Future[None]:
        """Return such a future for the last held publish."""
        return self._promised(self._held[-1])

    def _promised(self, held: Held) -> asyncio.Future[None]:
        promise: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        held.promises.append(promise)
        return promise

    async def _run(self) -> None:
        try:
            while self._held:
                items = self._held[0].items
                await self._bounded(self._prepare(self._stored(items)))
                held = self._held.popleft()
                self.nbytes -= _nbytes(items)
                self._apply(items)
                if held.promises:
                    self._promise().add_done_callback(partial(_keep, held.promises))
        finally:
            self._task = None

    async def _prepare(self, messages: Sequence[StoredUnder]) -> None:
        await self._locate(messages)
        await self._settle(messages)

    async def _bounded(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for a read, for a bounded time if it is from a bucket; the publish then finds it missing."""
        limit_s = MOST_HELD_S if self._store.table.is_remote else None
        with suppress(TimeoutError):
            await asyncio.wait_for(work, limit_s)

    async def locate_excess(self, subjects: Collection[bytes]) -> bool:
        """Find what is over the limit on these subjects; return whether it was found."""
        index, limit = self._store.ledger.subjects, self._store.config.max_msgs_per_subject
        wanted = {
            subject: min(index.count[subject] - limit + AHEAD, index.count[subject])
            for subject in subjects
            if index.count.get(subject, 0) > limit
        }
        return await self._find(wanted)

    def _stored(self, items: Sequence[Frame]) -> list[StoredUnder]:
        """Return publishes as the stream will store them, as far as that matters here."""
        return [(self._stored_subject(subject), headers) for subject, _, headers, _ in items]

    async def _locate(self, messages: Sequence[StoredUnder]) -> None:
        """Find what these messages will remove; an error here must not hold them back for ever."""
        try:
            await self._find(self._wanted(messages))
        except Exception:
            logger.exception("stream %s: looking up older messages failed", self._store.config.name)

    async def _settle(self, messages: Sequence[StoredUnder]) -> None:
        """Find the newest messages that these depend on; if reading fails, the publish will report it."""
        try:
            for subject in self._stale(messages):
                await self._reader.last_on(subject)
            if (counters := self._counters()) is not None:
                await counters.learn(_incremented(messages))
        except Exception as error:
            logger.warning(
                "stream %s: looking up the newest messages failed: %s", self._store.config.name, error
            )

    def _stale(self, messages: Sequence[StoredUnder]) -> set[bytes]:
        """Return the subjects whose newest message these depend on and that have lost it."""
        stale = self._store.ledger.subjects.stale
        if not stale:
            return set()
        config, found = self._store.config, set[bytes]()
        for subject, headers in messages:
            if subject in stale and (config.republish or config.allow_msg_counter):
                found.add(subject)
            if _EXPECTED in headers:
                found |= _among(stale, header_block.get(headers, _EXPECTED_ON) or subject)
            if _SCHEDULER in headers:
                found |= _among(stale, header_block.get(headers, _SCHEDULER) or b"")
        return found

    def _uncounted(self, messages: Sequence[StoredUnder]) -> bool:
        """Return whether these messages add to totals that must be read from a file."""
        counters = self._counters()
        return counters is not None and counters.must_read(_incremented(messages))

    async def _find(self, wanted: Mapping[bytes, int]) -> bool:
        """Record in the index where these messages are; return whether that could be read."""
        generation = -1
        while wanted and generation != self._store.generation:
            generation, ledger = self._store.generation, self._store.ledger
            index = ledger.subjects
            alone = {s for s, n in wanted.items() if n == index.count[s] == 1 and s not in index.stale}
            alone = alone if len(alone) <= FEW else set()
            searches = [self._search({subject: 1}, index.last[subject]) for subject in alone]
            if rest := {subject: n for subject, n in wanted.items() if subject not in alone}:
                start = min(index.oldest.get(subject, 0) for subject in rest)
                searches.append(self._search(rest, max(start, ledger.first_seq)))
            try:
                found = await self._store.on_thread(self._located, searches)
            except Exception as error:
                logger.warning(
                    "stream %s: looking up older messages failed: %s", self._store.config.name, error
                )
                return False
            if generation == self._store.generation:
                index.located.update(found)
        return True

    def _search(self, wanted: Mapping[bytes, int], start_seq: int) -> Search:
        ledger = self._store.ledger
        complete = frozenset(subject for subject, n in wanted.items() if n >= ledger.subjects.count[subject])
        return Search(wanted, start_seq, ledger.last_seq, ledger.deleted.copy(), complete)

    def _located(self, searches: Iterable[Search]) -> dict[bytes, Located]:
        """Return the sequences of the messages; blocking."""
        found: dict[bytes, Located] = {}
        for search in searches:
            found |= self._read(search)
        return found

    def _read(self, search: Search) -> dict[bytes, Located]:
        left = dict(search.wanted)
        entries: dict[bytes, list[tuple[int, int]]] = {subject: [] for subject in left}
        seq = search.start_seq
        while left and seq <= search.stop_seq:
            run = self._store.view.read_run_at(seq)
            if run is None:
                break
            sizes = self._store.overhead.sizes(run)
            for row, subject in enumerate(run.subjects):
                at = int(run.seqs[row])
                if subject in left and seq <= at <= search.stop_seq and at not in search.deleted:
                    entries[subject].append((at, int(sizes[row])))
                    left[subject] -= 1
                    if not left[subject]:
                        del left[subject]
            seq = int(run.seqs[-1]) + 1
        return {
            subject: Located(tuple(each), _through(search, subject, each))
            for subject, each in entries.items()
        }

    def _wanted(self, messages: Sequence[StoredUnder]) -> dict[bytes, int]:
        """Return for each subject how many of its oldest messages must be read from files."""
        config, index = self._store.config, self._store.ledger.subjects
        # In a bucket it may take long to find them: nothing waits for that but a rollup (`LateLimits`).
        limit = 0 if self._store.table.is_remote else config.max_msgs_per_subject
        if index.history is not None or not (config.allow_rollup_hdrs or limit > 0):
            return {}
        wanted: dict[bytes, int] = {}
        for subject, excess in self._excesses(messages, limit):
            if excess > wanted.get(subject, 0) and not self._is_resident(subject, excess):
                wanted[subject] = min(excess + AHEAD, index.count[subject])
        return wanted

    def _excesses(self, messages: Sequence[StoredUnder], limit: int) -> Iterator[tuple[bytes, int]]:
        """Yield the subjects that lose older messages, each with how many of the present ones."""
        ledger = self._store.ledger
        count, oldest = ledger.subjects.count, ledger.subjects.oldest
        coming: dict[bytes, int] = {}
        if limit <= 0 and not any(_ROLLUP in headers for _, headers in messages):
            return
        for stored, headers in messages:
            there = count.get(stored, 0)
            coming[stored] = coming.get(stored, 0) + 1
            if not there and coming[stored] == 2:
                # What this batch removes arrived with it, so nothing before it has to be searched.
                oldest[stored] = ledger.last_seq + 1
            if headers and _ROLLUP in headers and header_block.get(headers, _ROLLUP) == b"sub":
                yield from ((each, count[each]) for each in self._rolled_up(stored))
            elif there and 0 < limit < there + coming[stored]:
                yield stored, min(there + coming[stored] - limit, there)

    def _rolled_up(self, subject: bytes) -> Iterable[bytes]:
        """Return the subjects that are there and that a rollup of this one empties; it may have wildcards."""
        index = self._store.ledger.subjects
        if b"*" in subject or b">" in subject:
            return index.matching(subject.decode(errors="replace"))
        return (subject,) if subject in index else ()

    def _is_resident(self, subject: bytes, excess: int) -> bool:
        """Return whether nothing must be read to find the oldest messages of a subject."""
        index, view = self._store.ledger.subjects, self._store.view
        if subject in index.located:
            return len(index.located[subject].entries) >= excess
        head_seq = view.head.first_seq
        index.note_only(subject)
        start = max(index.oldest.get(subject, 0), self._store.ledger.first_seq)
        return head_seq is not None and start >= head_seq


def _through(search: Search, subject: bytes, found: Sequence[tuple[int, int]]) -> int:
    """Return up to where all messages of a subject are among those found."""
    if subject in search.complete or len(found) < search.wanted[subject]:
        return search.stop_seq
    return found[-1][0]


def _keep(promises: Sequence[asyncio.Future[None]], stored: asyncio.Future[None]) -> None:
    """Pass the result of a stored publish to its promises."""
    for promise in promises:
        if promise.done():
            continue
        if (error := stored.exception()) is None:
            promise.set_result(None)
        else:
            promise.set_exception(error)
            promise.exception()  # mark it as read: no task may be waiting


def _among(stale: Set[bytes], pattern: bytes) -> set[bytes]:
    """Return those of these subjects that a pattern matches."""
    if b"*" in pattern or b">" in pattern:
        return set(Filter(pattern.decode(errors="replace")).among(stale))
    return {pattern} if pattern in stale else set()


def _incremented(messages: Sequence[StoredUnder]) -> set[bytes]:
    """Return the subjects of counters that these messages add to."""
    return {subject for subject, headers in messages if INCREMENT in headers}


def _nbytes(items: Sequence[Frame]) -> int:
    return sum(len(subject) + len(headers) + len(data) for subject, _, headers, data in items)
