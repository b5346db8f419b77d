"""Enforces the limits of a stream whose table is in a bucket, where the event loop must not read.

The event loop removes messages over a limit while they are in memory. Otherwise publishing continues, and the
stream holds more than its limits for a while. A task fetches the oldest messages on a thread, and removes
them on the event loop. While the bucket is unreachable, the task retries.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from headwater.backoff import Backoff
from headwater.errors import Error
from headwater.stream.publishing.publishing import StreamPublishing
from headwater.stream.retention import rules
from headwater.stream.sequencer import Sequencer
from headwater.stream.store import Store

logger = logging.getLogger(__name__)

RETRY_FIRST_S = 0.1
RETRY_MOST_S = 5.0
SUBJECTS_AT_ONCE = 256


class LateLimits:
    """The task that removes what publishing could not; it runs only while there is something."""

    def __init__(
        self, store: Store, sequencer: Sequencer, publishing: StreamPublishing, changed: Callable[[], None]
    ) -> None:
        """Call `changed` after each removal, which has it made durable."""
        self._store = store
        self._sequencer = sequencer
        self._publishing = publishing
        self._changed = changed
        self._subjects: set[bytes] = set()
        """Subjects with more messages than their limit."""
        self._task: asyncio.Task[None] | None = None
        """None while all limits are enforced."""
        self._tried = asyncio.Event()
        """Set once the task has ended, or has failed to read."""
        self._complaint = ""
        """The error that was last logged, so that each is logged once."""

    def begin(self, subjects: Collection[bytes]) -> None:
        """Have the limits enforced soon: of the whole stream, and of these subjects."""
        self._subjects.update(subjects)
        if self._task is None:
            self._tried.clear()
            name = f"limits {self._store.config.name}"
            self._task = asyncio.get_running_loop().create_task(self._run(), name=name)

    @property
    def is_busy(self) -> bool:
        """Return whether there is something to remove."""
        return self._task is not None

    async def tried(self) -> None:
        """Return once the limits are enforced, or cannot be at the moment."""
        if self._task is not None:
            await self._tried.wait()

    async def close(self) -> None:
        """Return once nothing is removed any more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def _run(self) -> None:
        waits = Backoff(RETRY_FIRST_S, RETRY_MOST_S)
        try:
            while True:
                try:
                    is_done = await self._step()
                except Error as error:
                    self._failed(error)
                    await asyncio.sleep(waits.next_s())
                    continue
                if is_done:
                    break
                waits.reset()
        finally:
            self._tried.set()
            self._task = None

    async def _step(self) -> bool:
        """Remove some of what is over the limits; return whether nothing is left."""
        if self._subjects:
            await self._on_subjects()
        if not (self._sequencer.evicts and rules.is_over(self._store.config, self._store.ledger)):
            return not self._subjects
        adoptions, seq = self._store.adoptions, self._store.ledger.first_seq
        if adoptions and adoptions.first_seq <= seq:
            await adoptions.ended(seq)
        generation, run = self._store.generation, await self._store.view.run_at(seq)
        if generation != self._store.generation:
            return False
        self._publishing.require_storing()
        before = self._store.ledger.messages
        if run is not None:
            with self._store.view.holding(run):
                self._sequencer.enforce_totals()
            self._changed()
        await asyncio.sleep(0)
        # Without progress the next publish begins again.
        return self._store.ledger.messages == before and not self._subjects

    async def _on_subjects(self) -> None:
        limit, count = self._store.config.max_msgs_per_subject, self._store.ledger.subjects.count
        self._subjects = {s for s in self._subjects if 0 < limit < count.get(s, 0)}
        some = set(sorted(self._subjects)[:SUBJECTS_AT_ONCE])
        if not some:
            return
        if not await self._publishing.locate_excess(some):
            raise Error("older messages of its subjects cannot be read at the moment")
        self._publishing.require_storing()
        self._subjects -= some
        # What cannot be removed now is added again by the event that the sequencer reports.
        self._sequencer.enforce_on(some)
        self._changed()

    def _failed(self, error: Error) -> None:
        self._tried.set()
        if str(error) != self._complaint:
            self._complaint = str(error)
            logger.warning("stream %s: its limits are enforced later: %s", self._store.config.name, error)
