"""The consumers of an account's streams: declared, opened with their stream, changed, removed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from sqlite3 import IntegrityError

import msgspec

from headwater.background_tasks import BackgroundTasks
from headwater.bounded import ends
from headwater.bus.connection import Connection
from headwater.clock import Clock
from headwater.control.account import NO_LIMITS, AccountLimits
from headwater.control.ack_subscriptions import AckSubscriptions
from headwater.control.catalog import Catalog
from headwater.control.catalog_rows import ConsumerRow
from headwater.control.consumer_rules import CreateAddress, check_address, check_create
from headwater.control.consumer_start import check_reset, start_of
from headwater.control.prepared_consumers import PreparedConsumers
from headwater.control.restored_consumer import RestoredConsumer
from headwater.delivery.advisories import ConsumerAdvisories
from headwater.delivery.consumer import Consumer
from headwater.delivery.consumers import StreamConsumers
from headwater.delivery.outlet import Outlet
from headwater.delivery.pull import PullConsumer
from headwater.delivery.push import PushConsumer
from headwater.delivery.state import ConsumerState
from headwater.delivery.timers import Timers
from headwater.errors import Error, api_error
from headwater.model.consumer import ConsumerConfig, ConsumerInfo, CreateRequest
from headwater.model.stream import MAX_SEQUENCE, Retention, StreamConfig
from headwater.model.upstream import hash8
from headwater.stream.retention.hold import Hold
from headwater.stream.stream import Stream
from headwater.threads import on_thread
from headwater.wire.ack_subject import AckScope
from headwater.wire.consumer_json import decode_config, encode_config

logger = logging.getLogger(__name__)
FILTERS_AT_ONCE = 200
"""How many filters are compared in one turn of the event loop."""


class Consumers:
    """All consumers of an account; an observer of its domain."""

    def __init__(
        self,
        account: str,
        catalog: Catalog,
        connection: Connection,
        outlet: Outlet,
        clock: Clock,
        domain_name: str = "",
        *,
        folder: str = "",
        names_domain: bool = False,
        limits: AccountLimits = NO_LIMITS,
    ) -> None:
        """With `names_domain` ack subjects have the newer form, and acks in the older form are ignored."""
        self._folder = folder or account
        """The account's folder in the store."""
        self._catalog = catalog
        self._limits = limits
        self._connection = connection
        self.outlet = outlet
        self._clock = clock
        self._scope = AckScope(domain_name, hash8(account), names_domain)
        self._timers = Timers(clock)
        self._advisories = ConsumerAdvisories(connection.write, clock, domain_name, account)
        self._by_stream: dict[str, StreamConsumers] = {}
        """The consumers of each open stream."""
        self._listening: set[StreamConsumers] = set()
        """Those with consumers that check subscriber interest: usually few of thousands of streams."""
        self._prepared = PreparedConsumers(catalog, self._folder)
        self._unread: dict[tuple[str, str], Hold] = {}
        """By stream and name, consumers whose row cannot be read: all messages stay for them."""
        self._was_open = outlet.is_open
        """Whether the leaf connection was up when interest last changed."""
        self._acks = AckSubscriptions(connection, is_named=names_domain)
        self._deletions: dict[Consumer, asyncio.Task[None]] = {}
        """Consumers whose deletion has begun: a second request for the same one waits for the first."""
        self._tasks = BackgroundTasks()

    def of(self, stream: Stream) -> StreamConsumers:
        """Return the consumers of a stream; raise an error if it was closed or deleted."""
        consumers = self._by_stream.get(stream.name)
        if consumers is None or consumers.stream is not stream:
            raise api_error("stream_not_found")
        return consumers

    def count(self, stream: Stream) -> int:
        """Return how many consumers of a stream clients see."""
        consumers = self._by_stream.get(stream.name)
        return consumers.num_listed if consumers is not None else 0

    @property
    def total(self) -> int:
        """Return how many consumers clients see in total."""
        return sum(consumers.num_listed for consumers in self._by_stream.values())

    def get(self, stream: Stream, name: str) -> Consumer:
        """Return a consumer; raise an error if there is none."""
        consumer = self.of(stream).get(name)
        if consumer is None:
            raise api_error("consumer_not_found")
        return consumer

    async def prepare(self, stream: Stream) -> None:
        """Read a stream's consumers on a thread, before it is shown as open; raise if that fails."""
        await self._prepared.prepare(stream)

    def on_opened(self, stream: Stream) -> None:
        """Open the stream's consumers, and subscribe to their acks."""
        # First, since it may fail: a stream whose consumers are not all known must not listen to none.
        declared = self._prepared.take(stream)
        consumers = StreamConsumers(
            stream,
            self.outlet,
            self._timers,
            self._clock,
            self._advisories,
            self._scope,
            on_abandoned=self._abandoned,
            on_listening=self._listens,
            tallies=declared.tallies,
        )
        self._was_open = self._was_open and self.outlet.is_open
        self._by_stream[stream.name] = consumers
        for row in declared.rows:
            try:
                self._reopen(consumers, row)
            except Error as error:
                logger.error("cannot open consumer %s of %s: %s", row.name, stream.name, error)
                consumers.not_opened(row.name)
                self._unread[stream.name, row.name] = hold = Hold()
                stream.retention.holds.add(hold)
        consumers.expect(row.name for row in declared.rows)
        self._acks.begin_flow(stream.name, consumers.acks)

    def _add(self, consumers: StreamConsumers, consumer: Consumer) -> None:
        """Add a consumer, and subscribe to its acks."""
        consumers.add(consumer)
        unread = self._unread.pop((consumers.stream.name, consumer.name), None)
        if unread is not None:
            consumers.stream.retention.holds.discard(unread)
        self._acks.begin(consumer, consumers.acks)

    def _reopen(self, consumers: StreamConsumers, row: ConsumerRow) -> None:
        config = decode_config(row.config.encode())
        recorded = consumers.stream.consumers.recorded(row.name)
        if recorded:
            state = ConsumerState.restore(config, recorded, self._clock.steady_ns())
        else:
            # The engine crashed between its declaration and the first record of its state.
            start_seq = min(config.opt_start_seq, MAX_SEQUENCE)
            state = ConsumerState(config, max(start_seq, consumers.stream.reading.first_seq, 1))
        self._add(consumers, self._make(consumers, config, row.created_ns, state))

    def on_changed(self, stream: Stream, old: StreamConfig) -> None:
        """Do nothing: consumers read the config from the stream."""

    def on_closed(self, stream: Stream) -> None:
        """Unsubscribe from acks; a stream that closes while the engine is open is being deleted."""
        self._acks.end_flow(stream.name)
        consumers = self._by_stream.pop(stream.name, None)
        self._unread = {key: hold for key, hold in self._unread.items() if key[0] != stream.name}
        if consumers is not None:
            self._listening.discard(consumers)
            for consumer in consumers:
                self._acks.end(consumer)
            self._tasks.start(consumers.delete())

    def on_interest(self) -> None:
        """Have push consumers check their subscriber interest."""
        was_open, self._was_open = self._was_open, self.outlet.is_open
        is_changed = self._was_open != was_open
        for consumers in list(self._by_stream.values() if is_changed else self._listening):
            consumers.on_interest()

    def _listens(self, consumers: StreamConsumers, listens: bool) -> None:
        """Record whether a stream has consumers that check subscriber interest."""
        if listens:
            self._listening.add(consumers)
        else:
            self._listening.discard(consumers)

    async def close(self) -> None:
        """Stop delivering; every state is recorded."""
        closing, self._by_stream = self._by_stream, {}
        await asyncio.gather(
            *(
                ends(consumers.close(), f"recording the consumers of {consumers.stream.name!r}")
                for consumers in closing.values()
            )
        )
        await ends(self._tasks.ended(), "tasks of consumers")
        self._timers.close()

    async def create(self, stream: Stream, request: CreateRequest, address: CreateAddress) -> ConsumerInfo:
        """Return the info of the consumer that a request asks for, created or changed."""
        request = check_address(request, address, self._limits.max_replicas)
        async with self._changing(stream) as consumers:
            config = await self._check(request, consumers)
            known = consumers.get(config.name)
            if known is None:
                return await self._create(consumers, config)
            if known.config != config:
                await self._update(consumers, known, config)
            if config.sourcing:
                # A replicating client counts deliveries from one each time it asks.
                await self._reset(known, 0)
            return await known.info()

    @asynccontextmanager
    async def _changing(self, stream: Stream) -> AsyncIterator[StreamConsumers]:
        """Own the consumers of a stream: every change of a row or of a recorded state is made in here.

        What was looked up before may be deleted by then, so callers look it up in here.
        """
        consumers = self.of(stream)
        async with consumers.declaring:
            yield self.of(stream)

    async def _check(self, request: CreateRequest, consumers: StreamConsumers) -> ConsumerConfig:
        """Return the config to store; very many filters are compared on a thread."""
        config, existing = consumers.stream.config, consumers.configs
        filters = len(request.config.filters)
        if filters and config.retention is Retention.WORKQUEUE:
            filters += sum(len(other.filters) for other in existing.values())
        if filters <= FILTERS_AT_ONCE:
            return check_create(request, config, existing, limits=self._limits, has_interest=self._is_heard)
        old = existing.get(request.config.name)
        is_heard = old is not None and self._is_heard(old.deliver_subject)
        return await on_thread(
            check_create,
            request,
            config,
            dict(existing),
            limits=self._limits,
            has_interest=lambda subject: is_heard,
        )

    def _is_heard(self, subject: str) -> bool:
        return bool(subject) and self.outlet.listens(subject.encode())

    async def _create(self, consumers: StreamConsumers, config: ConsumerConfig) -> ConsumerInfo:
        stream = consumers.stream
        # The log must first record that an earlier consumer of this name was removed. Otherwise this one
        # would inherit its state after a refused write or a restart.
        consumers.recorder.record()
        await stream.publishing.settled()
        stream.publishing.require_storing()
        start_seq, only = await start_of(stream, config)
        await consumers.tallies.prepare(config.filters)
        state = ConsumerState(config, start_seq)
        created_ns = self._clock.now_ns()
        consumer = self._make(consumers, config, created_ns, state, only)
        try:
            if consumer.config.is_recorded:
                await on_thread(self._declare, consumer, config)
            info = await consumer.info()
            self.of(stream)  # It may have been closed or deleted meanwhile.
        except BaseException:
            await consumer.close()
            raise
        self._add(consumers, consumer)
        consumers.recorder.record()
        await stream.publishing.settled()
        if not config.direct:
            self._advisories.action(consumer, "create")
        return info

    async def declare_restored(self, stream: Stream, restored: Sequence[RestoredConsumer]) -> None:
        """Add consumers to the catalog and their states to the log; they are opened with the stream."""
        recorded = [consumer for consumer in restored if not consumer.config.mem_storage]
        await stream.consumers.restore({consumer.config.name: consumer.state for consumer in recorded})
        for config, created_ns, _ in recorded:
            await on_thread(self._catalog.declare_consumer, self._row(stream, config, created_ns))

    def add_restored(self, stream: Stream, restored: Sequence[RestoredConsumer]) -> None:
        """Open the restored consumers of a stream that are stored in memory only."""
        consumers = self.of(stream)
        for config, created_ns, state in restored:
            if config.mem_storage:
                held = ConsumerState.restore(config, [state])
                consumers.add(self._make(consumers, config, created_ns, held))

    def _make(
        self,
        consumers: StreamConsumers,
        config: ConsumerConfig,
        created_ns: int,
        state: ConsumerState,
        only: list[int] | None = None,
    ) -> Consumer:
        kind = PushConsumer if config.is_push else PullConsumer
        return kind(config, created_ns, state, consumers, only=only or ())

    def _declare(self, consumer: Consumer, config: ConsumerConfig) -> None:
        row = self._row(consumer.stream, config, consumer.created_ns)
        try:
            self._catalog.declare_consumer(row, consumer.stream.created_ns)
        except IntegrityError:
            raise api_error("stream_not_found") from None  # deleted meanwhile

    def _row(self, stream: Stream, config: ConsumerConfig, created_ns: int) -> ConsumerRow:
        text = encode_config(config).decode()
        return ConsumerRow(self._folder, stream.name, config.name, text, created_ns)

    async def _update(self, consumers: StreamConsumers, consumer: Consumer, config: ConsumerConfig) -> None:
        """Write the new config and then use it: a refused one must not release messages meanwhile."""
        old = consumer.config
        if consumer.config.is_recorded:
            await on_thread(self._declare, consumer, config)
        await consumers.tallies.prepare(config.filters)
        if consumers.get(consumer.name) is not consumer:
            raise api_error("stream_not_found")  # closed or deleted meanwhile
        consumer.reconfigure(config)
        await consumers.tallies.tidy()
        if config.filters != old.filters:
            await consumers.drop_unneeded()

    async def pause(self, stream: Stream, name: str, until_ns: int | None) -> Consumer:
        """Return the consumer, paused until a time or resumed."""
        async with self._changing(stream) as consumers:
            consumer = self.get(stream, name)
            if until_ns == consumer.config.pause_until:
                return consumer
            config = msgspec.structs.replace(consumer.config, pause_until=until_ns)
            await self._update(consumers, consumer, config)
        self._advisories.paused(consumer)
        return consumer

    async def reset(self, consumer: Consumer, seq: int) -> int:
        """Have a consumer begin again, not before its declared start; return at which sequence."""
        async with self._changing(consumer.stream) as consumers:
            if consumers.get(consumer.name) is not consumer:
                raise api_error("consumer_not_found")
            await check_reset(consumer, seq)
            return await self._reset(consumer, seq)

    async def _reset(self, consumer: Consumer, seq: int) -> int:
        consumers = self.of(consumer.stream)
        consumer.stream.publishing.require_storing()
        start_seq = consumer.reset(seq)
        consumers.recorder.record()
        await consumers.drop_unneeded()
        await consumer.stream.publishing.settled()
        return start_seq

    async def delete(self, stream: Stream, name: str) -> None:
        """Return once the consumer is durably removed."""
        await self._delete(self.get(stream, name))

    async def _delete(self, consumer: Consumer) -> None:
        consumers = self._by_stream.get(consumer.stream.name)
        if consumers is None or consumers.get(consumer.name) is not consumer:
            return
        deletion = self._deletions.get(consumer)
        if deletion is None:
            # Not two at once: the later one could forget a new consumer that has the same name by then.
            deletion = self._deletions[consumer] = asyncio.create_task(self._delete_once(consumers, consumer))
            deletion.add_done_callback(lambda _: self._deletions.pop(consumer, None))
        await asyncio.shield(deletion)

    async def _delete_once(self, consumers: StreamConsumers, consumer: Consumer) -> None:
        async with consumers.declaring:
            if consumer.config.is_recorded:
                stream = consumer.stream
                key = self._folder, stream.name, consumer.name, stream.created_ns
                await on_thread(self._catalog.forget_consumer, *key)
            if consumers.get(consumer.name) is not consumer:
                return  # The stream was closed or deleted meanwhile.
            consumer.deleted()
            self._acks.end(consumer)
            await consumers.remove(consumer)
        if not consumer.config.direct:
            self._advisories.action(consumer, "delete")

    def pull(self, stream: str, consumer: str, body: bytes, reply: bytes) -> bool:
        """Pass on a pull request; return whether there is a consumer for it."""
        consumers = self._by_stream.get(stream)
        found = consumers.get(consumer) if consumers is not None else None
        if found is None:
            return False
        found.pull(body, reply)
        return True

    def _abandoned(self, consumer: Consumer) -> None:
        logger.info("consumer %s of %s: inactive, removing it", consumer.name, consumer.stream.name)
        self._tasks.start(self._delete(consumer))
