"""Publishes the messages of a stream's schedules when they are due."""

from __future__ import annotations

import logging
from contextlib import suppress

from headwater.errors import ApiError, CorruptionError, Error
from headwater.model import headers as header_block
from headwater.model.message import Message
from headwater.model.run import Run
from headwater.stream.publishing.acceptor import Acceptor
from headwater.stream.publishing.admission import Admitted
from headwater.stream.reader import Reader
from headwater.stream.store import Store
from headwater.stream.timing.schedules import Due, Fired, fired, purged_by
from headwater.stream.timing.time_to_live import stored_ttl
from headwater.stream.view import NotResidentError

logger = logging.getLogger(__name__)

FIRE_AT_ONCE = 1000
"""The most schedules that are handled in one round."""


class Scheduler:
    """Turns due schedules into messages.

    A message and the next time of its schedule are one change, so a crash leaves both or neither. Nothing is
    published twice. What was due while the engine was stopped is published once.
    """

    def __init__(self, store: Store, acceptor: Acceptor) -> None:
        self._store = store
        self._acceptor = acceptor
        self._reader = Reader(store)

    async def fire(self, now_ns: int) -> int:
        """Publish what is due; return how many messages that were.

        A schedule that cannot be published, or whose message is damaged, ends. One that the disk does not let
        us read now, or for which the account has no room, stays due, and the others continue: the first such
        error is raised after them.
        """
        published = 0
        failure: Error | None = None
        for entry in self._store.ledger.schedules.due(now_ns, FIRE_AT_ONCE):
            try:
                published += await self._fire(entry, now_ns)
            except (ApiError, CorruptionError) as error:
                if isinstance(error, ApiError) and error.name == "account_resources_exceeded":
                    failure = failure or error
                    continue
                logger.error("stream %s: schedule %r: %s", self._store.config.name, entry.subject, error)
                self._store.ledger.schedules.remove_on(entry.subject)
            except NotResidentError as error:
                # What it removes is in a bucket: the next round finds it in memory.
                with suppress(Error):
                    await self._store.view.run_at(error.seq)
                failure = failure or error
            except Error as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return published

    async def _fire(self, entry: Due, now_ns: int) -> bool:
        run = await self._store.view.run_at(entry.seq)
        schedule = self._in(run, entry.seq)
        source = header_block.get(schedule.headers, b"Nats-Schedule-Source") if schedule else None
        content = await self._newest(source) if source else None
        index = self._store.ledger.schedules
        if not index.holds(entry):
            return False
        if schedule is None:
            index.remove_on(entry.subject)
            return False
        content = content or schedule
        result = fired(entry, schedule.headers, content.headers, now_ns)
        if result is None:
            index.remove_on(entry.subject)
            return False
        assert run is not None
        with self._store.view.holding(run):
            self._publish(entry, result, content.data)
        return True

    def _publish(self, entry: Due, result: Fired, data: bytes) -> None:
        rollup = header_block.get(result.headers, b"Nats-Rollup") or b""
        admitted = Admitted(
            ttl_ns=stored_ttl(result.headers),
            rollup=rollup,
            headers=result.headers,
            ends_schedule=purged_by(result.headers),
        )
        self._acceptor.publish(result.target, data, admitted)
        # If no consumer wants the message, none was stored that says when the schedule is due next.
        if result.next_ns is None:
            self._store.ledger.schedules.remove_on(entry.subject)
        else:
            self._store.ledger.schedules.postpone(entry.subject, result.next_ns)

    async def _newest(self, subject: bytes) -> Message | None:
        seq = await self._reader.last_on(subject)
        return self._in(await self._store.view.run_at(seq), seq) if seq else None

    def _in(self, run: Run | None, seq: int) -> Message | None:
        """Return a live message of a run."""
        row = int(run.seqs.searchsorted(seq)) if run is not None else 0
        if run is None or run.seqs[row] != seq or not self._store.ledger.is_live(seq):
            return None
        return run.message(row)
