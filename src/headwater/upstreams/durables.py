"""The consumers that upstreams have at remote work-queue and interest origins: created, acked, removed.

1. Created when the origin is first checked. From then on the origin keeps messages, also while we are down.
2. A transfer task reads through it, and its receipt lists the sequences it read.
3. The target has committed them. Only now are they acknowledged, and the last ack is confirmed.
4. Removed with the upstream, once the upstreams that replace it have their consumers and the origin answers.

A crash between 2 and 3, or a lost connection, leaves deliveries without an ack. They are redelivered. A
message at or below the cursor is recognized by its sequence and only acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pyroaring import BitMap64

from headwater.backoff import Backoff
from headwater.bus.connection import Connection, NoRespondersError
from headwater.errors import ApiError, BusError, Error
from headwater.model.cursor import Cursor
from headwater.replication import durable
from headwater.replication.exports import unacknowledged
from headwater.replication.work import Receipt
from headwater.replication.worker.lost_end import lost_end
from headwater.upstreams.origin_by_consumers import OriginUnansweredError
from headwater.upstreams.origins import Origins, prefix
from headwater.upstreams.upstream import Upstream

logger = logging.getLogger(__name__)

CONFIRM_S = 5.0
"""How long the origin may take to confirm an ack."""
ACKS_AT_ONCE = 5_000
"""How many acks are written before the connection is checked for backpressure."""
AGAIN_S = 10.0
"""How long to wait after a failed removal before the next attempt; doubled after each further one."""
LONGEST_AGAIN_S = 600.0
MOST_TRIES = 100
"""After this many attempts, about 16 hours, the consumer is left to the origin's operator."""
SUCCEEDED_S = 0.1
"""How often to check whether the upstreams that replace a removed one have their consumers."""
MOST_REMOVALS = 1_000
"""How many consumers may wait for their removal."""
MOST_UNCONFIRMED = 4
"""After this many rounds of acks without a confirmation the upstream shows an error."""
_CONSUMER_NOT_FOUND = 10014
_STREAM_NOT_FOUND = 10059


@dataclass(frozen=True, slots=True)
class ConsumerLag:
    """The state of an upstream's consumer, compared with the cursor of its target."""

    name: str
    lag: int
    has_work: bool
    """Whether there are messages to read through the consumer."""
    rewinds: bool
    """Whether an earlier engine left unacknowledged deliveries, which must be redelivered."""


class _OwedAcks:
    """The sequences that are committed and whose acks are not confirmed yet."""

    def __init__(self) -> None:
        self.owed = BitMap64()
        """Committed sequences that the origin has not confirmed."""
        self.covered = Cursor()
        """The target's durable cursor when sequences were last added."""
        self.ack_key = ""
        """The constant tokens of the consumer's ack subjects."""
        self.sending: asyncio.Task[None] | None = None
        """Sends the acks; None or done while it does not run."""
        self.unconfirmed = 0
        """How many rounds in a row had no confirmation."""

    def add(self, covered: Cursor, settled: BitMap64) -> None:
        """Add sequences; those of an origin that was re-created or lost its end are dropped first."""
        if covered.identity != self.covered.identity:
            self.owed.clear()
        self.covered = covered
        # Whatever the receipt lists, acknowledge only what the target durably has.
        self.owed = (self.owed | settled) & BitMap64(range(1, covered.seq + 1))


class Durables:
    """The consumers of an account's upstreams at origins that remove acknowledged messages."""

    def __init__(self, origins: Origins, connection: Connection, store_id: str, account: str) -> None:
        self._origins = origins
        self._connection = connection
        self._store_id = store_id
        self._account = account
        self._by_target: dict[str, list[Upstream]] = {}
        self._owed_acks: dict[Upstream, _OwedAcks] = {}
        """Acks of committed messages that the origin has not confirmed."""
        self._lags: dict[Upstream, ConsumerLag] = {}
        """What each consumer last said."""
        self._removals: dict[str, asyncio.Task[None]] = {}
        """Consumers to remove, by the subject of the request."""
        self._closed = False

    def declare(self, target: str, upstreams: Iterable[Upstream]) -> None:
        """Keep consumers for these upstreams of a target, and remove those of others."""
        if self._closed:
            return
        wanted = [upstream for upstream in upstreams if upstream.source.external is not None]
        gone = [upstream for upstream in self._by_target.pop(target, []) if upstream not in wanted]
        if wanted:
            self._by_target[target] = wanted
        for upstream in gone:
            acks = self._owed_acks.pop(upstream, None)
            if acks is not None and acks.sending is not None:
                acks.sending.cancel()
            # One that was never checked may have a consumer from an earlier run of the engine.
            had = self._lags.pop(upstream, None) is not None or not upstream.seen_ns
            if had and len(self._removals) < MOST_REMOVALS:
                self._remove(upstream, [each for each in wanted if each.source.name == upstream.source.name])
        for upstream in wanted:
            if removal := self._removals.pop(self._subject(upstream, "DELETE"), None):
                removal.cancel()

    async def check(self, upstream: Upstream) -> ConsumerLag:
        """Return the state of an upstream's consumer, created if missing; errors of the origin are raised."""
        acks = self._owed_acks.setdefault(upstream, _OwedAcks())
        quiet = not (acks.owed or upstream.open_ranges)
        try:
            info = await self._origins.ask(self._subject(upstream, "INFO"))
        except ApiError as error:
            if error.err_code != _CONSUMER_NOT_FOUND:
                raise
            info = await self._create(upstream)
        self._start_sending(upstream, acks)
        if acks.unconfirmed >= MOST_UNCONFIRMED:
            raise upstream.failure(unacknowledged(acks.ack_key))
        committed_seq = upstream.durable_cursor.seq
        delivered_seq = int(info["delivered"]["stream_seq"])
        pending, unacked = int(info["num_pending"]), int(info["num_ack_pending"])
        uncommitted = delivered_seq > committed_seq
        # Unacknowledged deliveries without any work in progress were read by an engine that stopped.
        forgotten = bool(unacked) and quiet and not (acks.owed or upstream.open_ranges)
        self._lags[upstream] = lag = ConsumerLag(
            name=self._name(upstream),
            lag=pending + (unacked if uncommitted else 0),
            has_work=bool(pending) or uncommitted or forgotten,
            rewinds=forgotten,
        )
        return lag

    def last_lag(self, upstream: Upstream) -> ConsumerLag | None:
        """Return the state of an upstream's consumer when it was last checked, if it has one."""
        return self._lags.get(upstream)

    def committed(self, upstream: Upstream, receipt: Receipt) -> None:
        """Acknowledge the sequences of a receipt, now that its target has stored them durably."""
        if not receipt.settled or self._closed:
            return
        acks = self._owed_acks.setdefault(upstream, _OwedAcks())
        acks.add(upstream.durable_cursor, BitMap64.deserialize(receipt.settled))
        acks.ack_key = receipt.ack_key
        self._start_sending(upstream, acks)

    async def close(self) -> None:
        """Cancel all requests; the engine that opens the store next finds out what is unacknowledged."""
        self._closed = True
        tasks = [acks.sending for acks in self._owed_acks.values() if acks.sending is not None]
        for task in [*tasks, *self._removals.values()]:
            task.cancel()
        await asyncio.gather(*tasks, *self._removals.values(), return_exceptions=True)

    async def _create(self, upstream: Upstream) -> dict[str, Any]:
        source = upstream.source
        filters = () if ">" in upstream.filters else upstream.filters
        request = durable.create_request(source.name, self._name(upstream), filters)
        request = durable.started(request, source)
        made = await self._made(self._subject(upstream, "DURABLE.CREATE"), request)
        if durable.takes_too_much(request, made):
            await self._origins.ask(self._subject(upstream, "DELETE"))
            raise upstream.failure("its server, older than 2.10, supports one filter per consumer: use one")
        # A task that ended while it re-created the consumer may have left its spare one.
        spare = self._subject(upstream, "DELETE") + durable.SPARE
        self._connection.publish(spare.encode(), b"")
        return made

    async def _made(self, subject: str, request: dict[str, Any]) -> dict[str, Any]:
        """Return the consumer that an origin creates, with as many of the wanted options as it accepts."""
        while True:
            try:
                return await self._origins.ask(subject, request)
            except ApiError as error:
                simpler = durable.simpler_request(request, error.err_code)
                if simpler is None:
                    raise
                request = simpler

    def _start_sending(self, upstream: Upstream, acks: _OwedAcks) -> None:
        """Send the owed acks, unless they are being sent."""
        if acks.owed and (acks.sending is None or acks.sending.done()):
            acks.sending = asyncio.create_task(self._acknowledge(upstream, acks), name="acknowledge")

    async def _acknowledge(self, upstream: Upstream, acks: _OwedAcks) -> None:
        """Send all owed acks; a sequence stays owed until the last ack of its round is confirmed."""
        while acks.owed:
            try:
                await self._drop_lost(upstream, acks)
            except (Error, TimeoutError, ConnectionError) as error:
                logger.info("%s: acknowledgements wait for the origin: %s", upstream.target.name, error)
                acks.unconfirmed += 1
                return
            sent = acks.owed.copy()
            if not sent:
                return
            subjects = durable.ack_subjects(acks.ack_key, iter(sent))
            try:
                last = b""
                while many := list(islice(subjects, ACKS_AT_ONCE)):
                    last = many[-1]
                    self._connection.write(b"".join(b"PUB %b 0\r\n\r\n" % subject for subject in many))
                    await self._connection.writable()
                # The origin processes acks in order, so the confirmation of the last one covers all.
                await self._connection.request(last, b"", CONFIRM_S)
            except (NoRespondersError, TimeoutError, BusError, ConnectionError) as error:
                logger.info("%s: acknowledgements wait for the origin: %s", upstream.target.name, error)
                acks.unconfirmed += 1
                return
            acks.owed -= sent
            acks.unconfirmed = 0

    async def _drop_lost(self, upstream: Upstream, acks: _OwedAcks) -> None:
        """Drop acks for messages that the origin lost: their sequences may belong to other messages now."""
        source = upstream.source
        try:
            extent = await self._origins.extent(source)
        except OriginUnansweredError:
            return  # only the consumer API is exported
        lost = extent.last_seq + 1 if extent.last_seq < acks.owed.max() else 0
        if extent.identity != acks.covered.identity:
            lost = 1
        elif not lost:
            lost = await self._origins.first_lost(source, acks.covered, extent)
        else:
            lost = min(await self._origins.first_lost(source, acks.covered, extent) or lost, lost)
        if lost:
            logger.warning("%s: %s; they are not acknowledged", upstream, lost_end(source.name))
            acks.owed &= BitMap64(range(1, lost))

    def _remove(self, upstream: Upstream, successors: Sequence[Upstream]) -> None:
        subject = self._subject(upstream, "DELETE")
        if subject not in self._removals:
            task = asyncio.create_task(self._try_to_remove(subject, successors), name="remove consumer")
            self._removals[subject] = task
            task.add_done_callback(lambda done: self._removed(subject, done))

    def _removed(self, subject: str, removal: asyncio.Task[None]) -> None:
        if self._removals.get(subject) is removal:
            del self._removals[subject]

    async def _try_to_remove(self, subject: str, successors: Sequence[Upstream]) -> None:
        """Return once the consumer is removed, however long its origin is unreachable.

        An interest stream removes a message with its last interested consumer, so the replacing upstreams
        must have their consumers first.
        """
        while any(map(self._is_unchecked, successors)):  # noqa: ASYNC110 - there is no event for a first check
            await asyncio.sleep(SUCCEEDED_S)
        said, waits = "", Backoff(AGAIN_S, LONGEST_AGAIN_S)
        for _ in range(MOST_TRIES):
            try:
                await self._origins.ask(subject)
                return
            except ApiError as error:
                if error.err_code in (_CONSUMER_NOT_FOUND, _STREAM_NOT_FOUND):
                    return
                why = error.description
            except Error as error:
                why = str(error)
            if why != said:
                # Log each reason once: an origin may be unreachable for days, or never have existed.
                logger.info("cannot remove a consumer at its origin yet, will try again: %s", why)
                said = why
            await asyncio.sleep(waits.next_s())
        logger.warning("cannot remove a consumer at its origin, remove it by hand: %s", said)

    def _is_unchecked(self, upstream: Upstream) -> bool:
        """Return whether an upstream's origin has not been checked yet."""
        declared = upstream in self._by_target.get(upstream.target.name, ())
        return declared and not upstream.seen_ns and upstream.error is None

    def _name(self, upstream: Upstream) -> str:
        return durable.durable_name(self._store_id, self._account, upstream.target.name, upstream.id)

    def _subject(self, upstream: Upstream, what: str) -> str:
        source = upstream.source
        return f"{prefix(source)}.CONSUMER.{what}.{source.name}.{self._name(upstream)}"
