"""The consumers that upstreams have at work-queue and interest origins elsewhere: made, acked, removed.

1. Made when the origin is first looked at; from then on it keeps messages for us, also while we are away.
2. A piece of work reads through it, and its receipt says which sequences it brought.
3. The target has committed; only now are they acknowledged, and the last one's confirmation is awaited.
4. Removed when the upstream is, as soon as those that come in its place have theirs and the origin answers.

A crash between 2 and 3, or a lost link, leaves deliveries without an acknowledgement. They are delivered
again; what the cursor has passed is known by its sequence, and only acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pyroaring import BitMap64

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
ACKS_AT_ONCE = 5_000
AGAIN_S = 10.0
"""How long after a failed removal it is tried again; twice as long after each further one."""
LONGEST_AGAIN_S = 600.0
MOST_TRIES = 100
"""After so many attempts, about 16 hours, a consumer is left to whoever looks after its origin."""
SUCCEEDED_S = 0.1
"""How often it is looked whether those that come in an upstream's place have their consumers."""
MOST_REMOVALS = 1_000
MOST_REFUSED = 4
_CONSUMER_NOT_FOUND = 10014
_STREAM_NOT_FOUND = 10059


@dataclass(frozen=True, slots=True)
class ConsumerLag:
    """How an upstream's consumer stands, beside the cursor of its target."""

    name: str
    lag: int
    has_work: bool
    rewinds: bool
    """Whether acknowledgements are owed that nobody remembers."""


class _Debt:
    """What is committed and not yet known to be acknowledged."""

    def __init__(self) -> None:
        self.owed = BitMap64()
        self.covered = Cursor()
        """How far the target had durably copied when it was last added to."""
        self.ack_key = ""
        self.paying: asyncio.Task[None] | None = None
        self.refused = 0
        """How often in a row no acknowledgement was confirmed."""

    def add(self, covered: Cursor, settled: BitMap64) -> None:
        """Owe more; of an origin that was made again or went back, what was owed before is another's."""
        if covered.identity != self.covered.identity:
            self.owed.clear()
        self.covered = covered
        # Whatever a receipt says: what the target does not durably have stays at its origin.
        self.owed = (self.owed | settled) & BitMap64(range(1, covered.seq + 1))


class Durables:
    """The consumers of an account's upstreams at origins that let go of what is acknowledged."""

    def __init__(self, origins: Origins, connection: Connection, store_id: str, account: str) -> None:
        self._origins = origins
        self._connection = connection
        self._store_id = store_id
        self._account = account
        self._by_target: dict[str, list[Upstream]] = {}
        self._debts: dict[Upstream, _Debt] = {}
        self._standings: dict[Upstream, ConsumerLag] = {}
        self._removals: dict[str, asyncio.Task[None]] = {}
        """Consumers to be removed, by where they are."""
        self._closed = False

    def declare(self, target: str, upstreams: Iterable[Upstream]) -> None:
        """Have consumers for these upstreams of a target, and none for others."""
        if self._closed:
            return
        wanted = [upstream for upstream in upstreams if upstream.source.external is not None]
        gone = [upstream for upstream in self._by_target.pop(target, []) if upstream not in wanted]
        if wanted:
            self._by_target[target] = wanted
        for upstream in gone:
            debt = self._debts.pop(upstream, None)
            if debt is not None and debt.paying is not None:
                debt.paying.cancel()
            # One that was never looked at may have a consumer of an earlier run of ours.
            had = self._standings.pop(upstream, None) is not None or not upstream.seen_ns
            if had and len(self._removals) < MOST_REMOVALS:
                self._remove(upstream, [each for each in wanted if each.source.name == upstream.source.name])
        for upstream in wanted:
            if removal := self._removals.pop(self._subject(upstream, "DELETE"), None):
                removal.cancel()

    async def stand(self, upstream: Upstream) -> ConsumerLag:
        """Return how an upstream's consumer stands, made if there is none; the origin's errors are raised."""
        debt = self._debts.setdefault(upstream, _Debt())
        quiet = not (debt.owed or upstream.under_way)
        try:
            info = await self._origins.ask(self._subject(upstream, "INFO"))
        except ApiError as error:
            if error.err_code != _CONSUMER_NOT_FOUND:
                raise
            info = await self._create(upstream)
        self._pay(upstream, debt)
        if debt.refused >= MOST_REFUSED:
            raise upstream.failure(unacknowledged(debt.ack_key))
        committed_seq = upstream.durable_cursor.seq
        delivered_seq = int(info["delivered"]["stream_seq"])
        pending, unacked = int(info["num_pending"]), int(info["num_ack_pending"])
        uncommitted = delivered_seq > committed_seq
        # What is unacknowledged although nothing is on its way was owed by an engine that is no more.
        forgotten = bool(unacked) and quiet and not (debt.owed or upstream.under_way)
        self._standings[upstream] = standing = ConsumerLag(
            name=self._name(upstream),
            lag=pending + (unacked if uncommitted else 0),
            has_work=bool(pending) or uncommitted or forgotten,
            rewinds=forgotten,
        )
        return standing

    def standing(self, upstream: Upstream) -> ConsumerLag | None:
        """Return how an upstream's consumer stood when it was last looked at, if it has one."""
        return self._standings.get(upstream)

    def committed(self, upstream: Upstream, receipt: Receipt) -> None:
        """Acknowledge what a receipt brought, now that its target has it for good."""
        if not receipt.settled or self._closed:
            return
        debt = self._debts.setdefault(upstream, _Debt())
        debt.add(upstream.durable_cursor, BitMap64.deserialize(receipt.settled))
        debt.ack_key = receipt.ack_key
        self._pay(upstream, debt)

    async def close(self) -> None:
        """Leave everything as it is; what is owed is found out again by who opens the store next."""
        self._closed = True
        tasks = [debt.paying for debt in self._debts.values() if debt.paying is not None]
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
            raise upstream.failure("its server, before 2.10, has one filter for a consumer: give one only")
        # A task that ended while it made the consumer anew may have left its spare one.
        spare = self._subject(upstream, "DELETE") + durable.SPARE
        self._connection.publish(spare.encode(), b"")
        return made

    async def _made(self, subject: str, request: dict[str, Any]) -> dict[str, Any]:
        """Return the consumer that an origin makes for us, with as much of our wishes as it grants."""
        while True:
            try:
                return await self._origins.ask(subject, request)
            except ApiError as error:
                humbler = durable.humbler(request, error.err_code)
                if humbler is None:
                    raise
                request = humbler

    def _pay(self, upstream: Upstream, debt: _Debt) -> None:
        """Send what is owed, unless that is under way."""
        if debt.owed and (debt.paying is None or debt.paying.done()):
            debt.paying = asyncio.create_task(self._acknowledge(upstream, debt), name="acknowledge")

    async def _acknowledge(self, upstream: Upstream, debt: _Debt) -> None:
        """Acknowledge all that is owed; it stays owed until the last one of a round was confirmed."""
        while debt.owed:
            try:
                await self._forgive(upstream, debt)
            except (Error, TimeoutError, ConnectionError) as error:
                logger.info("%s: acknowledgements wait for the origin: %s", upstream.target.name, error)
                debt.refused += 1
                return
            sent = debt.owed.copy()
            if not sent:
                return
            subjects = durable.ack_subjects(debt.ack_key, iter(sent))
            try:
                last = b""
                while many := list(islice(subjects, ACKS_AT_ONCE)):
                    last = many[-1]
                    self._connection.write(b"".join(b"PUB %b 0\r\n\r\n" % subject for subject in many))
                    await self._connection.writable()
                # The origin takes them in order, so its answer to one more speaks for all.
                await self._connection.request(last, b"", CONFIRM_S)
            except (NoRespondersError, TimeoutError, BusError, ConnectionError) as error:
                logger.info("%s: acknowledgements wait for the origin: %s", upstream.target.name, error)
                debt.refused += 1
                return
            debt.owed -= sent
            debt.refused = 0

    async def _forgive(self, upstream: Upstream, debt: _Debt) -> None:
        """Owe nothing for messages that the origin has no longer: others may stand under their sequences."""
        source = upstream.source
        try:
            extent = await self._origins.extent(source)
        except OriginUnansweredError:
            return  # it shows consumers alone
        lost = extent.last_seq + 1 if extent.last_seq < debt.owed.max() else 0
        if extent.identity != debt.covered.identity:
            lost = 1
        elif not lost:
            lost = await self._origins.first_lost(source, debt.covered, extent)
        else:
            lost = min(await self._origins.first_lost(source, debt.covered, extent) or lost, lost)
        if lost:
            logger.warning("%s: %s; it is not acknowledged", upstream, lost_end(source.name))
            debt.owed &= BitMap64(range(1, lost))

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
        """Return once the consumer is gone, however long its origin is away.

        By interest a message leaves with the last consumer that wants it: another filter has its own first.
        """
        while any(map(self._is_to_come, successors)):  # noqa: ASYNC110 - nobody is told of a first look
            await asyncio.sleep(SUCCEEDED_S)
        said, pause_s = "", AGAIN_S
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
                # Once for each reason: an origin may be away for days, or never have been there.
                logger.info("a consumer may stay at its origin, and its removal is tried again: %s", why)
                said = why
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_AGAIN_S)
        logger.warning("a consumer may stay at its origin, where it must be removed by hand: %s", said)

    def _is_to_come(self, upstream: Upstream) -> bool:
        """Return whether an upstream's origin is still to be looked at for the first time."""
        declared = upstream in self._by_target.get(upstream.target.name, ())
        return declared and not upstream.seen_ns and upstream.error is None

    def _name(self, upstream: Upstream) -> str:
        return durable.durable_name(self._store_id, self._account, upstream.target.name, upstream.id)

    def _subject(self, upstream: Upstream, what: str) -> str:
        source = upstream.source
        return f"{prefix(source)}.CONSUMER.{what}.{source.name}.{self._name(upstream)}"
