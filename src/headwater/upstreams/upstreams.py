"""The upstreams of an account's streams: planned, handed to the replicator, committed, watched.

1. A replicator asks for work. Every upstream that has something to copy contributes a range; if none has, the
   question waits.
2. Spark tasks copy the ranges. Each returns as a receipt.
3. A receipt enters its target with the cursor it was planned from, or not at all.

A crash at any point leaves the cursor where the target's messages end, and the next plan begins there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager

import msgspec

from headwater.background_tasks import BackgroundTasks
from headwater.bus.connection import Connection
from headwater.clock import Clock
from headwater.control.domain import Domain
from headwater.errors import ApiError, Error
from headwater.model.stream import StreamConfig
from headwater.model.upstream import StreamSourceInfo
from headwater.replication.proof import ProofCheck, Proven
from headwater.replication.work import (
    EXCHANGE_BYTES,
    NatsOrigin,
    Plan,
    Question,
    Work,
    commit_subject,
    decode_question,
    encode,
    plan_subject,
)
from headwater.stream.replica.importer import CursorMovedError
from headwater.stream.stream import Stream
from headwater.upstreams.commits import Commits
from headwater.upstreams.durables import Durables
from headwater.upstreams.filtered_lag import FilteredLag
from headwater.upstreams.holds import UpstreamHolds
from headwater.upstreams.leases import NOTHING, Leases, Planned
from headwater.upstreams.origin_by_consumers import OriginUnansweredError
from headwater.upstreams.origins import Origins, prefix
from headwater.upstreams.pending_upstreams import LOOK_NS, PendingUpstreams, next_look_ns
from headwater.upstreams.planner import SLOT_BYTES, OriginRange, beginning_at, plan_local, plan_remote
from headwater.upstreams.resume_point import Resumption
from headwater.upstreams.staging import StagingSweep
from headwater.upstreams.upstream import Upstream, upstreams_of
from headwater.wire.frames import Frame

logger = logging.getLogger(__name__)

IDLE_S = 2.0
"""How long a replicator's question waits for work."""
SETTLE_S = 0.02
"""How long to wait so that messages that arrive together go into one plan."""
WATCH_S = 2.0
"""How often upstreams are checked without a replicator's question."""
QUEUE_MESSAGES = 100_000
QUEUE_BYTES = 64 << 20
"""How much is read of a remote work-queue or interest stream before it is acknowledged there."""
FRESH_NS = 100_000_000
"""Stream info uses the state of local origins if it is not older than this."""
MEASURES = 3
"""How often a lag is counted while the copy moves; after that it is an upper bound."""
PLANS = 5
"""How often a copy is planned while its origin drops uncopied messages."""
SWEEP_NS = 600_000_000_000
"""How often to look for files that tasks staged and never committed."""
CLOSE_S = 5.0
"""How long a stopping engine waits for receipts that are being committed."""
_LOGGED_COUNTS = {10, 100, 1_000, 10_000}
"""After how many unproven questions the log has a warning."""
AT_ONCE = 64
"""How many upstreams are checked at the same time."""


class _Questions:
    """A sink for the questions of replicators."""

    def __init__(self, answer: Callable[[Frame], None]) -> None:
        self.items: list[Frame] = []
        self._answer = answer

    def flush(self) -> None:
        """Pass each question on."""
        items, self.items[:] = list(self.items), []
        for frame in items:
            self._answer(frame)


class Upstreams:
    """All upstreams of an account; an observer of its domain."""

    def __init__(
        self,
        domain: Domain,
        connection: Connection,
        clock: Clock,
        store_id: str,
        origin: NatsOrigin,
        *,
        is_single: bool = True,
        seat: str = "",
        secret: bytes = b"",
    ) -> None:
        """Answer replicators that prove the secret; without a secret, answer none."""
        self._proofs = ProofCheck(secret)
        self._unproven = 0
        """How many questions did not prove the secret."""
        self._seat = seat
        self._domain = domain
        self._connection = connection
        self._clock = clock
        self._store_id = store_id
        self._origin = origin
        """The template of the description that transfer tasks get of a remote origin."""
        self._origins = Origins(domain, connection)
        self._holds = UpstreamHolds(domain)
        self._durables = Durables(self._origins, connection, store_id, domain.account)
        self._filtered_lag = FilteredLag(connection, clock)
        self._resumption = Resumption(self._origins, clock)
        self._by_target: dict[str, list[Upstream]] = {}
        """The upstreams of each stream, by the stream's name."""
        self._leases = Leases(single=is_single, steady_ns=clock.steady_ns)
        self._commits = Commits(self.of, self._leases, self._holds, self._durables, clock)
        self._sweep = StagingSweep(lambda work: work in self._leases.identities)
        self._sids: list[bytes] = []
        """Our subscriptions to the questions of replicators."""
        self._planning = asyncio.Lock()
        """Held while a plan is made, so that no range is planned twice."""
        self._watching: asyncio.Task[None] | None = None
        """Checks the upstreams from time to time, whether a replicator asks or not."""
        self._pending = PendingUpstreams()
        """The upstreams that may be behind their origin."""
        self._tasks = BackgroundTasks()
        self.on_needed: Callable[[], None] = lambda: None
        """Called when there is an upstream, so that a replicator is needed."""
        self.on_looked: Callable[[Upstream], None] = lambda upstream: None
        """Called when an upstream's lag was measured."""
        self.problem: Callable[[], str] = lambda: ""
        """Returns why there is no replicator, if that is known."""

    def start(self) -> None:
        """Answer replicators from now on."""
        plan = plan_subject(self._store_id, self._seat)
        commit = commit_subject(self._store_id, self._seat)
        self._sids = [
            self._connection.subscribe(plan.encode(), _Questions(self._plan_for)),
            self._connection.subscribe(commit.encode(), _Questions(self._commit_for)),
        ]
        self._watching = asyncio.create_task(self._watch(), name="watch upstreams")

    async def close(self) -> None:
        """Stop answering; commits in progress finish first."""
        for sid in self._sids:
            self._connection.unsubscribe(sid)
        await self._holds.close()
        await self._durables.close()
        for task in self._tasks:
            if task.get_name() == "plan":
                task.cancel()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if self._tasks:
            # A failing disk must not keep the engine from stopping: what was committed is in the log.
            await self._tasks.ended(CLOSE_S)

    async def _watch(self) -> None:
        """Measure the lag and show what is stuck, whether or not a replicator asks for work."""
        swept_ns = self._clock.steady_ns()
        while True:
            await asyncio.sleep(WATCH_S)
            self._holds.retry()
            if self._clock.steady_ns() - swept_ns > SWEEP_NS:
                swept_ns = self._clock.steady_ns()
                await self._sweep.round(self._quiet_targets())
            upstreams = list(self._pending)
            for start in range(0, len(upstreams), AT_ONCE):
                some = upstreams[start : start + AT_ONCE]
                await asyncio.gather(*(self._watch_one(upstream, WATCH_S * 1e9) for upstream in some))

    def _quiet_targets(self) -> list[Stream]:
        """Return the targets that no replicator copies into."""
        busy = {upstream.target.name for upstream in self if upstream.open_ranges > 0}
        return list({u.target.name: u.target for u in self if u.target.name not in busy}.values())

    async def _watch_one(self, upstream: Upstream, since_ns: float) -> None:
        """Check one upstream unless it was checked just now; errors are shown, not raised."""
        now_ns = self._clock.now_ns()
        with self._showing(upstream, now_ns):
            if abs(now_ns - upstream.looked_ns) >= since_ns and upstream.is_due(now_ns):
                await self._look(upstream, now_ns)
            if upstream.lag and upstream.error is None:
                await self._measure_age(upstream)

    @contextmanager
    def _showing(self, upstream: Upstream, now_ns: int) -> Iterator[None]:
        """Show what fails at the upstream; it must not keep others from being checked."""
        try:
            yield
        except CursorMovedError:
            pass  # another copy moved the cursor
        except OriginUnansweredError as error:
            upstream.failed(error.of_known_origin() if upstream.seen_ns else error, now_ns)
        except ApiError as error:
            upstream.failed(error, now_ns)
        except Exception as error:
            if not isinstance(error, Error):
                logger.exception("%s could not be checked", upstream)
            upstream.failed(upstream.failure(str(error)), now_ns)

    async def _measure_age(self, upstream: Upstream) -> None:
        """Find the age of the oldest message that is still to be copied."""
        start_seq = upstream.cursor.seq + 1
        if upstream.pace.wants_age(start_seq):
            oldest_ns = await self._origins.oldest_ns(upstream, start_seq)
            if oldest_ns is not None:
                upstream.pace.aged(start_seq, oldest_ns)

    def on_opened(self, stream: Stream) -> None:
        """Add the stream's upstreams; it may be the origin of others, too."""
        self._pending.opened(stream)
        self._holds.opened(stream)
        self._declare(stream, upstreams_of(stream, stream.config))

    def on_changed(self, stream: Stream, old: StreamConfig) -> None:
        """Keep the unchanged upstreams with their status, and replace the others."""
        kept = {(u.source, u.mirrored): u for u in self.of(stream.name)}
        wanted = upstreams_of(stream, stream.config)
        self._declare(stream, [kept.get((u.source, u.mirrored), u) for u in wanted])

    def on_closed(self, stream: Stream) -> None:
        """Remove the stream's upstreams."""
        self._by_target.pop(stream.name, None)
        self._pending.declare(stream.name, ())
        self._pending.closed(stream)
        self._holds.declare(stream.name, ())
        self._durables.declare(stream.name, ())
        self._holds.closed(stream)

    def _declare(self, stream: Stream, upstreams: list[Upstream]) -> None:
        self._by_target[stream.name] = upstreams
        self._pending.declare(stream.name, upstreams)
        self._holds.declare(stream.name, upstreams)
        self._durables.declare(stream.name, upstreams)
        now_ns = self._clock.now_ns()
        for upstream in upstreams:
            upstream.moved_ns = upstream.moved_ns or now_ns
        if upstreams:
            self.on_needed()

    def of(self, target: str) -> list[Upstream]:
        """Return the upstreams of a stream."""
        return self._by_target.get(target, [])

    def __iter__(self) -> Iterator[Upstream]:
        for upstreams in list(self._by_target.values()):
            yield from upstreams

    async def refresh(self, stream: Stream) -> None:
        """Measure a stream's lag behind origins of the same engine; have others checked soon."""
        for upstream in self.of(stream.name):
            if upstream.source.external is not None:
                upstream.look_soon(LOOK_NS)
            # One that was just declared has not been checked yet, and shows that, as in nats-server.
            if upstream.source.external is None and upstream.looked_ns and upstream in self._pending:
                await self._watch_one(upstream, FRESH_NS)

    def infos(self, stream: Stream) -> tuple[StreamSourceInfo | None, list[StreamSourceInfo]]:
        """Return the status of a stream's mirror and sources."""
        now_ns = self._clock.now_ns()
        upstreams = self.of(stream.name)
        for upstream in upstreams:
            if upstream not in self._pending:
                upstream.origin_answered(now_ns)
        mirrors = [upstream.info(now_ns) for upstream in upstreams if upstream.mirrored]
        return mirrors[0] if mirrors else None, [u.info(now_ns) for u in upstreams if not u.mirrored]

    def _plan_for(self, frame: Frame) -> None:
        proven = self._proven(frame)
        if proven is None:
            return
        try:
            question = decode_question(proven.body)
        except msgspec.DecodeError as error:
            logger.warning("cannot decode a replicator's question: %s", error)
            return
        self._leases.renew(question)
        question = msgspec.structs.replace(question, slots=max(question.slots, 1))
        self._begin("plan", self._answer_plan(frame[1], proven, question))

    def _commit_for(self, frame: Frame) -> None:
        proven = self._proven(frame)
        if proven is not None:
            self._begin("commit", self._answer_commit(frame[1], proven))

    def _proven(self, frame: Frame) -> Proven | None:
        """Return a proven question of a replicator; others are refused and change nothing."""
        if not _is_asked(frame):
            return None
        proven = self._proofs.question(frame[0], frame[1], frame[3])
        if proven is None:
            self._unproven += 1
            # A replicator's first question is refused, too: from the refusal it learns the engine's run.
            level = logging.WARNING if self._unproven in _LOGGED_COUNTS else logging.DEBUG
            logger.log(level, "%d questions on %s did not prove the secret", self._unproven, frame[0])
            self._connection.publish(frame[1], self._proofs.refusal)
        return proven

    def _begin(self, name: str, work: Coroutine[None, None, None]) -> None:
        self._tasks.start(work, name)

    async def _answer_plan(self, reply: bytes, proven: Proven, question: Question) -> None:
        """Answer with the work that there is, as soon as there is some or after a while."""
        deadline = asyncio.get_running_loop().time() + IDLE_S
        while True:
            self._pending.grown.clear()
            self._pending.is_new = False
            async with self._planning:
                works = await self._plan(question)
            left_s = deadline - asyncio.get_running_loop().time()
            if works or left_s <= 0:
                break
            wait_s = min(left_s, LOOK_NS / 1e9) if any(True for _ in self._pending) else left_s
            try:
                async with asyncio.timeout(wait_s):
                    await self._pending.grown.wait()
                if not self._pending.is_new:
                    await asyncio.sleep(SETTLE_S)
            except TimeoutError:
                pass
        self._connection.publish(reply, self._proofs.answer(proven, encode(Plan(works=tuple(works)))))

    async def _plan(self, question: Question) -> list[Work]:
        """Return the work that there is, as much as fits a message and the slots read within seconds."""
        works: list[Work] = []
        size = read_bytes = 0
        now_ns = self._clock.now_ns()
        due = [u for u in self._pending if u.is_due(now_ns) and not self._leases.is_leased(u)]
        # The upstream copied last comes last, so that a full plan leaves out none of them for long.
        due.sort(key=lambda upstream: upstream.handed_ns)
        # Remote origins are asked at the same time: one that does not answer must not delay the others.
        remote = [u for u in due if u.source.external is not None]
        asked = await asyncio.gather(*(self._planned(upstream, now_ns, question) for upstream in remote))
        found = dict(zip(remote, asked, strict=True))
        for upstream in due:
            planned = found.get(upstream) or await self._planned(upstream, now_ns, question)
            if planned.read_bytes and read_bytes > question.slots * SLOT_BYTES:
                continue
            size += planned.exchange_bytes
            if works and size > EXCHANGE_BYTES:
                break
            read_bytes += planned.read_bytes
            if planned.works:
                self._leases.grant(upstream, planned, now_ns)
            works += planned.works
        return works

    async def _planned(self, upstream: Upstream, now_ns: int, question: Question) -> Planned:
        """Return the next ranges of an upstream; errors are shown, not raised."""
        with self._showing(upstream, now_ns):
            if upstream.source.external is None:
                return await self._planned_local(upstream, now_ns, question)
            return await self._planned_remote(upstream, now_ns)
        return NOTHING

    async def _planned_local(self, upstream: Upstream, now_ns: int, question: Question) -> Planned:
        for _ in range(PLANS):
            extent, start_seq = await self._look(upstream, now_ns, planning=True)
            if start_seq > extent.last_seq:
                return NOTHING
            origin = self._domain.stream(upstream.source.name)
            works = await plan_local(
                upstream, origin, extent, start_seq, question.slots, now_ns, question.task_bytes
            )
            if not (extent.takes_out and origin.reading.first_seq > start_seq):
                break
            # Messages were removed since the origin was checked: the next check records them as a gap.
        else:
            # They are removed faster than they are planned. So the gap ends where this plan can begin.
            first_seq = origin.reading.first_seq
            cursor = await self._resumption.pass_removed(upstream, extent, start_seq, first_seq)
            works = beginning_at(works, first_seq, cursor)
        return Planned(extent.identity, works)

    async def _look(
        self, upstream: Upstream, now_ns: int, *, planning: bool = False
    ) -> tuple[OriginRange, int]:
        """Return the range of the origin and where to resume, and measure the lag there."""
        upstream.looked_ns = now_ns
        mark = self._pending.mark_of(upstream)
        # Ranges in progress, or being planned, rely on the present cursor.
        noting = planning or not (self._leases.is_leased(upstream) or self._planning.locked())
        try:
            extent, start_seq = await self._measure(upstream, now_ns, noting=noting)
        except CursorMovedError:
            raise
        except Exception:
            upstream.origin_failed()
            raise
        upstream.origin_answered(now_ns)
        upstream.pace.saw(start_seq, extent.last_seq, now_ns)
        self.on_looked(upstream)
        if not upstream.lag:
            upstream.moved(now_ns)
        elif problem := self.problem():
            upstream.cannot_move(problem, now_ns)
        else:
            upstream.stalled(self._suspicion(upstream), now_ns)
        if start_seq > extent.last_seq and upstream.cursor == upstream.durable_cursor:
            self._pending.clear(upstream, mark)
        return extent, start_seq

    async def _measure(self, upstream: Upstream, now_ns: int, *, noting: bool) -> tuple[OriginRange, int]:
        """Return the range of the origin and where to resume, and count the lag from there."""
        for _ in range(MEASURES):
            extent = await self._origins.extent(upstream.source)
            await upstream.target.replica.durable()  # a cursor that may be rolled back must not be used
            start_seq = await self._resumption.next_seq(upstream, extent, noting=noting)
            before = upstream.cursor
            lag = await self._lag(upstream, extent, start_seq)
            if upstream.cursor == before:
                break
            # Messages were copied in the meantime: count again from the present cursor.
        upstream.measured(lag, start_seq - 1, now_ns)
        return extent, start_seq

    def _suspicion(self, upstream: Upstream) -> str:
        """Return why nothing may be copied, as far as the engine can see."""
        if upstream.open_ranges:
            return "a replicator was given work and has not returned it"
        return "no replicator has asked for work" if not self._leases.asker else "is a replicator running?"

    async def _lag(self, upstream: Upstream, extent: OriginRange, start_seq: int) -> int:
        """Return how many messages are still to be copied, from the origin or from our consumer there."""
        if upstream.source.external is None:
            return await self._origins.lag(upstream, extent, start_seq)
        if extent.retention == "limits":
            return await self._filtered_lag.of(upstream, extent, start_seq, prefix(upstream.source))
        return (await self._durables.check(upstream)).lag

    async def _planned_remote(self, upstream: Upstream, now_ns: int) -> Planned:
        upstream.next_try_ns = now_ns + next_look_ns(upstream.quiet_looks)
        extent, start_seq = await self._look(upstream, now_ns, planning=True)
        consumer = self._durables.last_lag(upstream) if extent.retention != "limits" else None
        if not (consumer.has_work if consumer else start_seq <= extent.last_seq):
            upstream.quiet_looks += 1
            return NOTHING
        upstream.quiet_looks = 0
        upstream.next_try_ns = now_ns
        source = upstream.source
        origin = msgspec.structs.replace(
            self._origin,
            api_prefix=prefix(source),
            deliver=source.external.deliver if source.external else "",
            stream=source.name,
            identity=extent.identity,
        )
        if consumer is not None:
            origin = msgspec.structs.replace(
                origin,
                retention=extent.retention,
                durable=consumer.name,
                rewinds=consumer.rewinds,
                max_messages=QUEUE_MESSAGES,
                max_bytes=QUEUE_BYTES,
            )
        return Planned(extent.identity, plan_remote(upstream, origin, extent, start_seq, now_ns))

    async def _answer_commit(self, reply: bytes, proven: Proven) -> None:
        try:
            committed = await self._commits.answer(proven.body)
        except msgspec.DecodeError as error:
            logger.warning("cannot decode a replicator's receipts: %s", error)
            return
        self._connection.publish(reply, self._proofs.answer(proven, encode(committed)))
        self._pending.grown.set()


def _is_asked(frame: Frame) -> bool:
    """Return whether the sender waits for an answer.

    A client that may not publish here could have the engine do so, as an answer or a delivery. Those have no
    reply subject, or one for acks.
    """
    return bool(frame[1]) and not frame[1].startswith(b"$JS.")
