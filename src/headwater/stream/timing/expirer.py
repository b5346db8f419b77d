"""Expires messages (by age or their own time to live) and publishes those of schedules that are due."""

from __future__ import annotations

import logging
from bisect import bisect_right
from typing import NamedTuple

from headwater.clock import AHEAD_NS
from headwater.errors import CorruptionError
from headwater.model.run import Run
from headwater.stream.committer import Committer
from headwater.stream.publishing.acceptor import Acceptor
from headwater.stream.retention import rules as retention
from headwater.stream.retention.removal import Removal
from headwater.stream.store import Store
from headwater.stream.timing.scheduler import Scheduler
from headwater.stream.timing.time_to_live import is_marker

logger = logging.getLogger(__name__)

EXPIRE_AT_ONCE = 10_000
"""The most messages with a time to live of their own that expire in one change."""


class _Passed(NamedTuple):
    """The messages at the front that no round has to look at again: their times are in the future."""

    generation: int
    seq: int = 0
    """The first sequence behind them."""
    ahead_ns: int | None = None
    """The soonest of their times."""

    def beyond(self, seq: int, ahead_ns: int | None) -> _Passed:
        """Return the same with those of a run that ends before this sequence."""
        times = [ns for ns in (self.ahead_ns, ahead_ns) if ns is not None]
        return _Passed(self.generation, seq, min(times, default=None))


class Expirer:
    """Removes what has expired, one run at a time, so that the stream keeps working."""

    def __init__(self, store: Store, acceptor: Acceptor, committer: Committer) -> None:
        self._store = store
        self._acceptor = acceptor
        self._committer = committer
        self._scheduler = Scheduler(store, acceptor)
        self._next_age: tuple[int, int] | None = None
        """When the oldest message that can expire was stored, as of a generation of the store."""
        self._passed: _Passed | None = None
        """Messages at the front that rounds skip, because their times are in the future."""

    def configure(self) -> None:
        """Forget what was found under the old config."""
        self._next_age = self._passed = None

    def next_ns(self) -> int | None:
        """Return when a message may be due to expire or to be published; None if none will."""
        ledger, max_age = self._store.ledger, self._store.config.max_age
        times = (ledger.expiry.next_ns(), ledger.schedules.next_ns(), self._acceptor.next_abandon_ns())
        due = min((ns for ns in times if ns is not None), default=None)
        if max_age and ledger.messages:
            known = self._next_age is not None and self._next_age[0] == self._store.generation
            oldest_ns = self._next_age[1] if known and self._next_age else ledger.first_ts or 0
            if oldest_ns > self._store.services.clock.now_ns() + AHEAD_NS:
                oldest_ns = 0  # it stays, but a later message may be older
            due = oldest_ns + max_age if due is None else min(due, oldest_ns + max_age)
        return due

    async def expire(self, now_ns: int) -> int:
        """Remove what is too old and publish what is due; return how many messages were removed."""
        self._acceptor.abandon_idle(now_ns)
        try:
            await self._scheduler.fire(now_ns)
        finally:
            # A schedule that cannot be published now must not keep messages from expiring.
            gone = await self._expire_old(now_ns) if self._store.config.max_age else 0
            gone += await self._expire_due(now_ns)
        return gone

    async def _expire_old(self, now_ns: int) -> int:
        """Remove the messages older than `max_age`, one run at a time from the front.

        Times in the future, from a clock that was set wrong, do not keep later messages from expiring.
        """
        horizon_ns, latest_ns = now_ns - self._store.config.max_age, now_ns + AHEAD_NS
        generation = self._store.generation
        passed = self._passed_before(horizon_ns)
        gone = 0
        oldest_ns: int | None = None
        while oldest_ns is None:
            run = await self._store.view.run_at(max(passed.seq, self._store.ledger.first_seq))
            if run is None:
                # Every new message is newer than all that are stored.
                oldest_ns = min(max(self._store.ledger.last_ts, now_ns), latest_ns)
                break
            removal, oldest_ns, ahead_ns = retention.too_old(
                self._store.ledger, run, passed.seq, horizon_ns, latest_ns
            )
            if oldest_ns is None:
                passed = passed.beyond(int(run.seqs[-1]) + 1, ahead_ns)
            gone += self._take_out(removal, run)
        self._passed = passed if passed.ahead_ns is not None else None
        # A message that is copied into an empty stream may have a time long past.
        self._next_age = (generation, oldest_ns) if self._store.ledger.messages else None
        return gone

    def _passed_before(self, horizon_ns: int) -> _Passed:
        """Return what the last round found to stay for long, if it still does."""
        passed, generation = self._passed, self._store.generation
        if passed is None or passed.generation != generation or (passed.ahead_ns or 0) <= horizon_ns:
            return _Passed(generation)
        return passed

    async def _expire_due(self, now_ns: int) -> int:
        """Remove the messages whose own time to live has passed."""
        generation, gone = self._store.generation, 0
        due = sorted(self._store.ledger.expiry.pop_due(now_ns, EXPIRE_AT_ONCE))
        try:
            while due and generation == self._store.generation:
                gone += await self._expire_first(due, generation)
        finally:
            # What could not be read stays due. A rebuilt index has all of them.
            if generation == self._store.generation:
                self._store.ledger.expiry.end_round(due)
        return gone

    async def _expire_first(self, due: list[int], generation: int) -> int:
        """Remove the first of these messages and those of its run; drop what is done from the list."""
        if not self._store.ledger.is_live(due[0]):
            due.pop(0)
            return 0
        try:
            run = await self._store.view.run_at(due[0])
        except CorruptionError as error:
            name = self._store.config.name
            logger.error("stream %s: cannot expire sequence %d: %s", name, due.pop(0), error)
            return 0
        if generation != self._store.generation:
            return 0
        assert run is not None
        reach = bisect_right(due, int(run.seqs[-1]))
        live = [seq for seq in due[:reach] if self._store.ledger.is_live(seq)]
        removal = Removal()
        removal.take(run, run.seqs.searchsorted(live), self._store.overhead)
        gone = self._take_out(removal, run)
        del due[:reach]
        return gone

    def _take_out(self, removal: Removal, run: Run) -> int:
        """Remove expired messages of a run, and leave the delete markers that the config asks for."""
        if not removal:
            return 0
        self._committer.require_storing()
        marked: dict[bytes, int] = {}
        if self._store.config.subject_delete_marker_ttl:
            counts = self._store.ledger.subjects.count
            rows = {run.subjects[row]: row for row in run.seqs.searchsorted(list(removal.seqs)).tolist()}
            emptied = [s for s, gone in removal.subjects.items() if gone >= counts[s]]
            lasts = [run.message(rows[subject]) for subject in emptied]
            marked = {last.subject: last.seq for last in lasts if not is_marker(last.headers)}
        self._acceptor.sequencer.expire(removal, marked)
        return len(removal.seqs)
