"""One stream, composed of its parts: publishing, reading, retention, consumers' records and replica.

    publishers ──> publishing ──> acceptor ──> sequencer ──> committer ──> log
    replication ──> replica ────────────────────┘               │
    consumers <── events <──────────────────────────────────────┘
    readers <──── reading <── view (head and table) <── fold

A change is durable before `events` reports it and before it is answered.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from headwater.errors import DiskError, Error, api_error
from headwater.model.stream import Retention, StreamConfig
from headwater.model.times import format_time
from headwater.model.upstream import hash8
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
from headwater.stream.retention.retention import StreamRetention
from headwater.stream.sequencer import Sequencer
from headwater.stream.store import Services, Store
from headwater.wire.pub_ack import PubAcks

logger = logging.getLogger(__name__)


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
        self.replica = StreamReplica(
            store, self._sequencer, self._committer, adopter, self.folder, self.publishing, self.events
        )
        self._sequencer.enforce()
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
        return cls(config, created_ns, store)

    @property
    def name(self) -> str:
        """Return the stream's name."""
        return self.config.name

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
        """Use another config and remove what exceeds its limits. On an error, keep the old config."""
        await self.publishing.settled()
        self._committer.require_storing()
        old = self.config
        try:
            await self._configure(config)
            is_over = self._sequencer.enforce()
            if config.retention == Retention.INTEREST != old.retention:
                await self.retention.drop_unneeded()
            await self.publishing.settled()
        except BaseException:
            await self._configure(old)
            raise
        if is_over:
            await self._enforce()

    async def _enforce(self) -> None:
        """Remove the rest of what exceeds lowered limits.

        Some of it is durably removed by now, so an error does not take the limits back. The next messages
        have the rest removed.
        """
        try:
            while self._sequencer.enforce():
                await self.publishing.settled()
            await self.publishing.settled()
        except Error as error:
            logger.warning("stream %s: its limits are not enforced yet: %s", self.name, error)

    async def _configure(self, config: StreamConfig) -> None:
        store = self._store
        self.config = store.config = config
        if keeps_history(config) and store.ledger.subjects.history is None:
            await store.build_history()
        # Nothing is awaited from here on, so no message meets half a config.
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
        await self.publishing.drained()
        await self.replica.close()
        await self.folder.close()
        await self._committer.close()
        self._acceptor.abandon_all()
        self._store.close()
