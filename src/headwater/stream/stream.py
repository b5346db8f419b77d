"""One stream, composed of its parts: publishing, bulk, reading, retention, consumers' records and replica.

    publishers ──> publishing ──> acceptor ──> sequencer ──> committer ──> log
    replication ──> replica ────────────────────┤               │
    bulk writes ──> bulk ───────────────────────┘               │
    consumers <── events <──────────────────────────────────────┘
    readers <──── reading <── view (head and table) <── fold

A change is durable before `events` reports it and before it is answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from headwater.background_tasks import BackgroundTasks
from headwater.backoff import Backoff
from headwater.errors import CorruptionError, DiskError, Error, api_error
from headwater.meters import Meters
from headwater.model.stream import Retention, StreamConfig
from headwater.model.times import format_time
from headwater.model.upstream import hash8
from headwater.stream.bulk.bulk import StreamBulk
from headwater.stream.committer import Committer
from headwater.stream.consumer_records import ConsumerRecords
from headwater.stream.events import StreamEvents
from headwater.stream.folder import Fold
from headwater.stream.publishing.acceptor import Acceptor
from headwater.stream.publishing.publishing import StreamPublishing
from headwater.stream.reader import Reader
from headwater.stream.reading import StreamReading
from headwater.stream.replay import keeps_history
from headwater.stream.replica.adopter import Adopter
from headwater.stream.replica.replica import StreamReplica
from headwater.stream.retention.hold import StreamHolds
from headwater.stream.retention.late_limits import LateLimits
from headwater.stream.retention.retention import StreamRetention
from headwater.stream.sequencer import Sequencer
from headwater.stream.services import Services
from headwater.stream.store import Store
from headwater.stream.stored_sizes import StoredSizes
from headwater.wire.pub_ack import PubAcks

logger = logging.getLogger(__name__)

REMOVE_FIRST_S = 0.5
REMOVE_MOST_S = 30.0

Rule = Callable[[], Awaitable[None]]
"""Removes what the config does not keep."""


class Stream:
    """Opens, composes, reconfigures and closes the parts of a stream."""

    def __init__(self, config: StreamConfig, created_ns: int, store: Store) -> None:
        self.config = config
        self.created_ns = created_ns
        self._store = store
        holds = StreamHolds()
        acks = PubAcks(config.name, store.services.domain)
        self.events = StreamEvents(config.name, holds)
        self._sequencer = Sequencer(store, self.events)
        self._acceptor = Acceptor(store, self._sequencer, self.events)
        adopter = Adopter(store, self.events)
        self._committer = Committer(store, self._acceptor, adopter, self.events, acks)
        self.publishing = StreamPublishing(store, self._acceptor, self._committer, acks)
        self.reading = StreamReading(store, self._committer, Reader(store))
        self.retention = StreamRetention(
            store, self._acceptor, self._committer, self.publishing, self.events, holds
        )
        self.consumers = ConsumerRecords(store, self._sequencer, self._committer, self.publishing)
        self.folder = Fold(store, self._committer)
        self.sizes = StoredSizes(store)
        self.replica = StreamReplica(
            store, self._sequencer, self._committer, adopter, self.folder, self.publishing, self.events
        )
        self.bulk = StreamBulk(store, self._acceptor, self._committer, self.publishing, self.replica)
        self._tasks = BackgroundTasks()
        """The removals that the disk has refused so far."""
        self._late_limits = LateLimits(store, self._sequencer, self.publishing, self._committer.wake)
        self.events.over_limits_callbacks.add(self._late_limits.begin)
        self._sequencer.enforce_totals()
        self._committer.wake()

    @classmethod
    async def open(
        cls,
        directory: Path,
        config: StreamConfig,
        *,
        created_ns: int,
        services: Services,
    ) -> Stream:
        """Return the stream that is stored in this directory; create it if there is none."""
        loop = asyncio.get_running_loop()
        store = await loop.run_in_executor(services.work_executor, Store, directory, config, services)
        stream = cls(config, created_ns, store)
        if config.max_msgs_per_subject > 0:
            await stream._remove_by(stream._limit_subjects)
        return stream

    @property
    def name(self) -> str:
        """Return the stream's name."""
        return self.config.name

    @property
    def meters(self) -> Meters:
        """Return what the engine counts."""
        return self._store.services.meters

    @property
    def directory(self) -> Path:
        """Return the directory in which the stream is stored."""
        return self._store.directory

    @property
    def identity(self) -> str:
        """Return what distinguishes this stream from an earlier or later one of the same name."""
        return self._store.identity or hash8(format_time(self.created_ns))

    @property
    def failure(self) -> str:
        """Return why nothing can be stored or folded at the moment; empty if everything works."""
        failure = self.publishing.failure or self.folder.failure
        return str(failure) if failure is not None else ""

    async def reconfigure(self, config: StreamConfig) -> None:
        """Use another config and remove what it does not keep. On an error, keep the old config."""
        old = self.config
        await self.use(config)
        await self.remove_unkept(old)

    async def use(self, config: StreamConfig) -> None:
        """Return once another config is in effect; on an error, the old one is. No message is removed yet."""
        await self.publishing.settled()
        self._committer.require_storing()
        if keeps_history(config):
            await self._store.build_history()
        self._apply(config)

    async def remove_unkept(self, old: StreamConfig) -> None:
        """Remove the messages that the new config does not keep.

        Some may already be removed when an error occurs, so the config is not reverted.
        """
        config = self.config
        if (config.max_msgs, config.max_bytes, config.discard) != (old.max_msgs, old.max_bytes, old.discard):
            await self._remove_by(self._limit_totals)
        limit, old_limit = config.max_msgs_per_subject, old.max_msgs_per_subject
        if limit > 0 and not 0 < old_limit <= limit:
            await self._remove_by(self._limit_subjects)
        if config.retention == Retention.INTEREST != old.retention:
            await self._remove_by(self.retention.drop_unneeded)

    async def _limit_totals(self) -> None:
        while self._sequencer.enforce_totals():
            await self.publishing.settled()
        await self._late_limits.tried()

    async def _limit_subjects(self) -> None:
        self._sequencer.enforce_subjects()
        await self.retention.limit_subjects()
        await self._late_limits.tried()

    async def _remove_by(self, rule: Rule) -> None:
        """Remove what a rule of the config does not keep; what cannot be removed now is tried again."""
        if not await self._has_removed(rule):
            self._tasks.start(self._keep_removing(rule), f"remove from {self.name}")

    async def _keep_removing(self, rule: Rule) -> None:
        """Try until it is done. A rule that is not in the config any more removes nothing."""
        waits = Backoff(REMOVE_FIRST_S, REMOVE_MOST_S)
        while True:
            await asyncio.sleep(waits.next_s())
            if await self._has_removed(rule):
                return

    async def _has_removed(self, rule: Rule) -> bool:
        """Remove what a rule does not keep; return whether it is done, as far as it can be."""
        try:
            await rule()
            await self.publishing.settled()
        except CorruptionError as error:
            logger.error("stream %s: cannot enforce its limits: %s", self.name, error)
        except Error as error:
            logger.warning("stream %s: cannot remove what its config does not keep: %s", self.name, error)
            return False
        return True

    def _apply(self, config: StreamConfig) -> None:
        """Use a config. Nothing is awaited, so no message meets half of it."""
        store = self._store
        self.config = store.config = config
        if not keeps_history(config):
            store.ledger.subjects.history = None
        store.ledger.dedupe.window_ns = config.duplicate_window
        store.ledger.dedupe.expire(store.services.clock.now_ns())
        self._acceptor.configure()
        self.retention.configure()

    async def checkpoint(self) -> None:
        """Fold everything and trim the log, so that the next open has little to replay."""
        try:
            await self.folder.fold(force_checkpoint=True)
        except DiskError as error:
            raise api_error("stream_store_failed", err=str(error)) from error

    async def close(self) -> None:
        """Make everything durable and close the files."""
        self._tasks.cancel()
        await self.publishing.drained()
        await self._late_limits.close()
        await self.replica.close()
        await self.folder.close()
        await self._committer.close()
        self._acceptor.abandon_all()
        self._store.close()
