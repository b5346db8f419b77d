"""Removing messages from a stream: by request, by purge, by age, and when no consumer or copy needs them."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Sequence

from headwater.errors import Error
from headwater.model.stream import Retention
from headwater.stream.committer import Committer
from headwater.stream.events import StreamEvents
from headwater.stream.publishing.acceptor import Acceptor
from headwater.stream.publishing.publishing import StreamPublishing
from headwater.stream.reader import Reader
from headwater.stream.retention import purge, release, subject_limit
from headwater.stream.retention.hold import StreamHolds
from headwater.stream.retention.removal import Removal
from headwater.stream.store import Store
from headwater.stream.timing.expirer import Expirer
from headwater.stream.view import NotResidentError

logger = logging.getLogger(__name__)


class StreamRetention:
    """Decides which messages of one stream are removed, and removes them."""

    def __init__(
        self,
        store: Store,
        acceptor: Acceptor,
        committer: Committer,
        publishing: StreamPublishing,
        events: StreamEvents,
        holds: StreamHolds,
    ) -> None:
        self._store = store
        self._sequencer = acceptor.sequencer
        self._committer = committer
        self._publishing = publishing
        self._events = events
        self.holds = holds
        """What upstreams that copy this stream need; asked unless retention is by limits."""
        self._reader = Reader(store)
        self._expirer = Expirer(store, acceptor, committer)

    def configure(self) -> None:
        """Use the config that the store holds now."""
        self._expirer.configure()

    async def remove(self, seq: int, *, erase: bool = True) -> bool:
        """Remove one message; return whether there was one."""
        await self._publishing.settled()
        run = await self._store.view.run_at(seq) if self._store.ledger.is_live(seq) else None
        if run is None or not self._store.ledger.is_live(seq):
            return False
        removal = Removal()
        removal.take(run, run.seqs.searchsorted([seq]), self._store.overhead)
        self._remove(removal)
        await self._publishing.settled()
        return True

    async def purge(self, *, filter: str = "", seq: int = 0, keep: int = 0) -> int:
        """Remove what matches, below a sequence or except the newest `keep`; return how many."""
        await self._publishing.settled()
        ledger = self._store.ledger
        everything = filter in ("", ">")
        if everything and keep == 0 and (seq == 0 or seq > ledger.last_seq):
            purged = ledger.messages
            self._remove(Removal(everything=True), last_seq=seq - 1 if seq else 0)
            await self._publishing.settled()
            return purged
        below_seq, filters = seq or ledger.last_seq + 1, () if everything else (filter,)

        async def count() -> int:
            total = await self._reader.pending(0, filters)
            return total - await self._reader.pending(seq, filters) if seq else total

        purged = 0
        async for removal in purge.removals(self._store, filter, below_seq, keep, count):
            self._remove(removal)
            purged += len(removal.seqs)
        await self._publishing.settled()
        return purged

    def _remove(self, removal: Removal, *, last_seq: int = 0) -> None:
        """Remove messages, unless nothing can be stored."""
        self._committer.require_storing()
        self._sequencer.remove(removal, last_seq=last_seq)

    def removal_of(self, seqs: Sequence[int]) -> tuple[Removal, list[int]]:
        """Return the removal of those of these messages that exist, and those that cannot be read now."""
        removal = Removal()
        unread: list[int] = []
        ledger = self._store.ledger
        wanted = sorted(seq for seq in set(seqs) if ledger.is_live(seq))
        while wanted:
            try:
                run = self._store.view.run_now(wanted[0])
            except Error as error:
                if not isinstance(error, NotResidentError):
                    name = self._store.config.name
                    logger.error("stream %s: cannot remove acknowledged messages: %s", name, error)
                here = bisect_right(wanted, self._store.view.reach(wanted[0]))
                unread += wanted[:here]
                wanted = wanted[here:]
                continue
            assert run is not None
            here = bisect_right(wanted, int(run.seqs[-1]))
            removal.take(run, run.seqs.searchsorted(wanted[:here]), self._store.overhead)
            wanted = wanted[here:]
        return removal, unread

    async def drop_unneeded(self, start_seq: int = 0, stop_seq: int | None = None) -> None:
        """Remove the messages of a range, or of all, that no consumer and no copy needs any more."""
        ledger, listener = self._store.ledger, self._events.listener
        if listener is None or self._store.config.retention == Retention.LIMITS:
            return
        if ledger.messages and listener.is_done_with(ledger.first_seq, ledger.last_seq):
            # Nothing is awaited before this, so no message that arrives meanwhile is removed with the rest.
            self._sequencer.remove(Removal(everything=True))
            return
        stop_seq = ledger.last_seq if stop_seq is None else min(stop_seq, ledger.last_seq)
        async for removal in release.removals(self._store, listener.released, start_seq, stop_seq):
            self._sequencer.remove(removal)

    async def limit_subjects(self) -> None:
        """Remove what exceeds a lowered `max_msgs_per_subject`; in a bucket, `LateLimits` does it."""
        limit = self._store.config.max_msgs_per_subject
        if limit <= 0 or self._store.table.is_remote:
            return
        await self._publishing.settled()
        async for removal in subject_limit.removals(self._store, limit):
            if self._store.config.max_msgs_per_subject != limit:
                return  # the next config has its own
            if removal:
                self._remove(removal)

    def next_expiry_ns(self) -> int | None:
        """Return when a message may be due to expire or to be published; None if none will."""
        return self._expirer.next_ns()

    async def expire(self, now_ns: int) -> int:
        """Remove what is too old and publish what is due; return how many messages were removed."""
        if self._committer.failure is not None:
            return 0
        gone = await self._expirer.expire(now_ns)
        await self._publishing.settled()
        return gone
