"""Finds what the limits of a stream take out, on the event loop, and takes it out of the ledger.

What must be read from a bucket first stays for now: an event has it removed later.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from headwater.errors import Error
from headwater.model.run import Run
from headwater.model.stream import Discard
from headwater.stream.events import StreamEvents
from headwater.stream.ledger import Ledger
from headwater.stream.live_runs import ReadRun
from headwater.stream.publishing.offered import OfferedRun
from headwater.stream.retention import rules
from headwater.stream.retention.removal import Removal
from headwater.stream.store import Store
from headwater.stream.view import NotResidentError

logger = logging.getLogger(__name__)

LOOKED_FOR_ONE_BY_ONE = 64
"""Of more subjects that a rollup empties, the messages are found in one pass over the stream."""
EVICTED_AT_ONCE = 1 << 16
"""About how many of the oldest messages a limit removes in one turn of the event loop, which reads them."""


class Evictions:
    """The evictions of one stream; the sequencer records each in the change that causes it."""

    def __init__(self, store: Store, events: StreamEvents) -> None:
        self._store = store
        self._events = events
        self._complaint = ""
        """The error that was last logged because a limit cannot be enforced."""
        self.configure()

    def configure(self) -> None:
        """Use the config and the ledger that the store holds now."""
        self._config = config = self._store.config
        self._ledger: Ledger = self._store.ledger
        limited = config.max_msgs > 0 or config.max_bytes > 0
        # With `discard: new` what is there stays, even when the limits are lowered below it.
        self.evicts = limited and config.discard == Discard.OLD
        """Whether `max_msgs` or `max_bytes` removes the oldest messages."""

    def rolled_up_with(self, subject: bytes) -> list[set[bytes]]:
        """Return the other subjects that a rollup of this one empties: a subject may contain wildcards.

        Each set is looked for in one pass: where a few match, their messages may be far apart.
        """
        if b"*" not in subject and b">" not in subject:
            return []
        matching = self._ledger.subjects.matching(subject.decode(errors="replace"))
        others = {other for other in matching if other != subject}
        return [{other} for other in others] if len(others) <= LOOKED_FOR_ONE_BY_ONE else [others]

    def older_than(self, limit: int, read: ReadRun, subjects: Collection[bytes]) -> Removal:
        """Return the older messages of these subjects; none if they must be read from a bucket first."""
        try:
            return rules.over_subject_limit(limit, self._ledger, read, subjects)
        except NotResidentError:
            self._ledger.subjects.forget_places(subjects)
            self._events.over_limits(subjects)
        except Error as error:
            self._ledger.subjects.forget_places(subjects)
            self.complain(error)
        return Removal()

    def require_found(self, emptied: set[bytes], read: ReadRun) -> None:
        index = self._ledger.subjects
        there = [subject for subject in emptied if subject in index]
        with index.keeping_places(there):
            rules.over_subject_limit(0, self._ledger, read, there)

    def without_room(self, run: OfferedRun) -> Removal:
        """Remove what exceeds the limits now that these messages are stored."""
        removal = Removal()
        if self._config.max_msgs_per_subject > 0:
            removal = self.over_subject_limit(set(run.subjects), self._config.max_msgs_per_subject)
        if self.evicts:
            removal.merge(self.over_limits())
        return removal

    def over_subject_limit(self, subjects: set[bytes], limit: int) -> Removal:
        """Remove the older messages of these subjects beyond the limit."""
        removal = self.older_than(limit, self._store.view.run_now, subjects)
        if removal:
            self._ledger.remove(removal)
        return removal

    def over_limits(self) -> Removal:
        try:
            removal = self.excess()
        except Error as error:
            self.complain(error)
            return Removal()
        if removal:
            self._ledger.remove(removal)
        return removal

    def excess(self) -> Removal:
        """Return what exceeds the limits, as much of it as may go at once.

        A file that waits to be adopted cannot be read. What is behind it is newer and must not go in its
        place: the file's messages go once it is in the table. The same holds for a run in a bucket that is
        not in memory: it is fetched, and what is in it goes then.
        """
        adoptions = self._store.adoptions
        stop_seq = adoptions.first_seq - 1 if adoptions else None
        left = EVICTED_AT_ONCE

        def read(seq: int) -> Run | None:
            nonlocal left
            try:
                run = self._store.view.run_now(seq) if left > 0 else None
            except NotResidentError:
                self._events.over_limits(())
                return None
            left -= len(run) if run is not None else 0
            return run

        return rules.over_limits(self._config, self._ledger, read, stop_seq)

    def complain(self, error: Error) -> None:
        """Log once that a limit cannot be enforced because the messages to remove cannot be read."""
        if str(error) != self._complaint:
            self._complaint = str(error)
            logger.error("stream %s: cannot enforce its limits: %s", self._config.name, error)
