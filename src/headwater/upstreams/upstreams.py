"""The upstreams of an account's streams: planned, handed to the replicator, committed, watched.

1. A replicator asks for work. Every upstream that has something to copy contributes a range; if none has, the
   request waits.
2. Spark tasks copy the ranges. Each returns as a receipt.
3. A receipt enters its target with the cursor it was planned from, or not at all.

A crash at any point leaves the cursor where the target's messages end, and the next plan begins there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator

import msgspec

from headwater.background_tasks import BackgroundTasks
from headwater.bus.connection import Connection
from headwater.clock import Clock
from headwater.control.domain import Domain
from headwater.model.stream import StreamConfig
from headwater.model.upstream import StreamSourceInfo
from headwater.replication.proof import ProofCheck, Proven
from headwater.replication.work import (
    NatsOrigin,
    Plan,
    PlanRequest,
    Work,
    check_subject,
    commit_subject,
    decode_checked,
    decode_plan_request,
    encode,
    plan_subject,
)
from headwater.stream.stream import Stream
from headwater.upstreams.commits import Commits
from headwater.upstreams.dead_letter_box import DeadLetterBox
from headwater.upstreams.durables import Durables
from headwater.upstreams.filtered_lag import FilteredLag
from headwater.upstreams.holds import UpstreamHolds
from headwater.upstreams.leases import Leases
from headwater.upstreams.observer import UpstreamObserver
from headwater.upstreams.origins import Origins
from headwater.upstreams.pending_upstreams import LOOK_NS, PendingUpstreams
from headwater.upstreams.planning import Planning
from headwater.upstreams.replicator_jobs import ReplicatorJobs
from headwater.upstreams.resume_point import Resumption
from headwater.upstreams.sql_checks import SqlChecks
from headwater.upstreams.staging import StagingSweep
from headwater.upstreams.upstream import Upstream, upstreams_of
from headwater.upstreams.upstream_lag import UpstreamLag
from headwater.wire.frames import Frame

logger = logging.getLogger(__name__)

IDLE_S = 2.0
"""How long a replicator's request waits for work."""
SETTLE_S = 0.02
"""How long to wait so that messages that arrive together go into one plan."""
WATCH_S = 2.0
"""How often upstreams are checked without a replicator's request."""
FRESH_NS = 100_000_000
"""Stream info uses the state of a local origin that grew if it is not older than this."""
QUIET_FRESH_NS = 2_000_000_000
"""The same for an origin that has not grown since, so that lists of many streams cost little."""
NO_REPLICATOR_YET = "no replicator has asked for work yet; Spark takes a while to start"
SWEEP_NS = 600_000_000_000
"""How often to look for files that tasks staged and never committed."""
CLOSE_S = 5.0
"""How long a stopping engine waits for receipts that are being committed."""
_LOGGED_COUNTS = {10, 100, 1_000, 10_000}
"""After how many unproven requests the log has a warning."""
AT_ONCE = 64
"""How many upstreams are checked at the same time."""


class _Requests:
    """A sink for the requests of replicators."""

    def __init__(self, answer: Callable[[Frame], None]) -> None:
        self.items: list[Frame] = []
        self._answer = answer
        """Called with each request."""

    def flush(self) -> None:
        """Pass each request on."""
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
        on_needed: Callable[[], None] = lambda: None,
        on_looked: Callable[[Upstream], None] = lambda upstream: None,
        problem: Callable[[], str] = str,
    ) -> None:
        """Answer replicators that prove the secret; without a secret, answer none."""
        self._proofs = ProofCheck(secret)
        self._unproven = 0
        """How many requests did not prove the secret."""
        self.plans = 0
        """How many plans with work replicators got; each is one Spark job."""
        self.commits = 0
        """How many times replicators committed what they had copied."""
        self._seat = seat
        self._connection = connection
        self._clock = clock
        self._store_id = store_id
        origins = Origins(domain, connection)
        self._holds = UpstreamHolds(domain)
        """What upstreams need of local work queues and interest streams."""
        self._durables = Durables(origins, connection, store_id, domain.account)
        """Our consumers on remote work queues and interest streams."""
        self._by_target: dict[str, list[Upstream]] = {}
        """The upstreams of each stream, by the stream's name."""
        self._leases = Leases(single=is_single, steady_ns=clock.steady_ns)
        """Which ranges replicators work on."""
        self._is_single = is_single
        self.jobs = ReplicatorJobs(clock.now_ns)
        self._commits = Commits(
            self.of, self._leases, self._holds, self._durables, clock, self.jobs, DeadLetterBox(domain)
        )
        self._sweep = StagingSweep(lambda work: work in self._leases.identities)
        self._sids: list[bytes] = []
        """Our subscriptions to the requests of replicators."""
        self._watching: asyncio.Task[None] | None = None
        """Checks the upstreams from time to time, whether a replicator asks or not."""
        self._pending = PendingUpstreams()
        """The upstreams that may be behind their origin."""
        resumption = Resumption(origins, clock)
        lag = UpstreamLag(origins, self._durables, FilteredLag(connection, clock))
        self._observer = UpstreamObserver(
            origins,
            lag,
            resumption,
            self._pending,
            self._leases,
            clock,
            on_looked=on_looked,
            problem=problem,
        )
        self._planning = Planning(
            domain, origin, self._observer, resumption, self._durables, self._pending, self._leases, clock
        )
        self._checks = SqlChecks(self._check_waits, problem)
        """The SQL that replicators check."""
        self._domain = domain
        self._tasks = BackgroundTasks()
        self._on_needed = on_needed
        """Called when there is an upstream, so that a replicator is needed."""

    def start(self) -> None:
        """Answer replicators from now on."""
        plan = plan_subject(self._store_id, self._seat)
        commit = commit_subject(self._store_id, self._seat)
        check = check_subject(self._store_id, self._seat)
        self._sids = [
            self._connection.subscribe(plan.encode(), _Requests(self._plan_for)),
            self._connection.subscribe(commit.encode(), _Requests(self._commit_for)),
            self._connection.subscribe(check.encode(), _Requests(self._checked_for)),
        ]
        self._watching = asyncio.create_task(self._watch(), name="watch upstreams")

    async def close(self) -> None:
        """Stop answering; commits in progress finish first."""
        for sid in self._sids:
            self._connection.unsubscribe(sid)
        self._checks.close()
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
                await asyncio.gather(*(self._observer.check(upstream, WATCH_S * 1e9) for upstream in some))

    def _quiet_targets(self) -> list[Stream]:
        """Return the targets that no replicator copies into."""
        busy = {upstream.target.name for upstream in self if upstream.open_ranges > 0}
        return list({u.target.name: u.target for u in self if u.target.name not in busy}.values())

    def on_opened(self, stream: Stream) -> None:
        """Add the stream's upstreams; it may be the origin of others, too."""
        self._pending.opened(stream)
        self._holds.opened(stream)
        self._declare(stream, upstreams_of(stream, stream.config))

    def on_changed(self, stream: Stream, old: StreamConfig) -> None:
        """Keep the unchanged upstreams with their status, and replace the others."""
        kept = {(u.source, u.mirrored, u.pipeline, u.problem): u for u in self.of(stream.name)}
        wanted = upstreams_of(stream, stream.config)
        self._declare(stream, [kept.get((u.source, u.mirrored, u.pipeline, u.problem), u) for u in wanted])

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
            self._on_needed()

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
                has_grown = self._pending.mark_of(upstream) != upstream.looked_mark
                await self._observer.check(upstream, FRESH_NS if has_grown else QUIET_FRESH_NS)
                if not has_grown and upstream.is_reachable and upstream.error is None:
                    # A stream that is closed or grows is marked: this one is as it was when it was looked at.
                    upstream.origin_answered(self._clock.now_ns())

    def infos(self, stream: Stream) -> tuple[StreamSourceInfo | None, list[StreamSourceInfo]]:
        """Return the status of a stream's mirror and sources."""
        now_ns = self._clock.now_ns()
        upstreams = self.of(stream.name)
        for upstream in upstreams:
            if upstream not in self._pending:
                upstream.origin_answered(now_ns)
        waiting = "" if self._leases.asker else NO_REPLICATOR_YET
        mirrors = [upstream.info(now_ns, waiting) for upstream in upstreams if upstream.mirrored]
        return mirrors[0] if mirrors else None, [u.info(now_ns, waiting) for u in upstreams if not u.mirrored]

    def _plan_for(self, frame: Frame) -> None:
        proven = self._proven(frame)
        if proven is None:
            return
        try:
            request = decode_plan_request(proven.body)
        except msgspec.DecodeError as error:
            logger.warning("cannot decode a replicator's request: %s", error)
            return
        self._leases.renew(request)
        self.jobs.asked(request.name, request.under_way)
        if self._is_single:
            self.jobs.forget_others(request.name)
        request = msgspec.structs.replace(request, slots=max(request.slots, 1))
        self._begin("plan", self._answer_plan(frame[1], proven, request))

    def _commit_for(self, frame: Frame) -> None:
        proven = self._proven(frame)
        if proven is not None:
            self._begin("commit", self._answer_commit(frame[1], proven))

    def _checked_for(self, frame: Frame) -> None:
        proven = self._proven(frame)
        if proven is None:
            return
        try:
            self._checks.answered(decode_checked(proven.body))
        except msgspec.DecodeError as error:
            logger.warning("cannot decode what a replicator says of SQL: %s", error)
            return
        self._connection.publish(frame[1], self._proofs.answer(proven, b""))

    def _check_waits(self) -> None:
        """Have a replicator running, and answer its request at once."""
        self._on_needed()
        self._pending.is_new = True
        self._pending.grown.set()

    async def require_valid(self, config: StreamConfig) -> None:
        """Return once Spark accepts the SQL of a config's pipelines; refuse the config otherwise."""
        configs = {each.name: each for each in self._domain.configs()}
        await self._checks.require_valid(config, configs.get(config.name), configs.get)

    def _proven(self, frame: Frame) -> Proven | None:
        """Return a proven request of a replicator; others are refused and change nothing."""
        if not _is_asked(frame):
            return None
        proven = self._proofs.request(frame[0], frame[1], frame[3])
        if proven is None:
            self._unproven += 1
            # A replicator's first request is refused, too: from the refusal it learns the engine's run.
            level = logging.WARNING if self._unproven in _LOGGED_COUNTS else logging.DEBUG
            logger.log(
                level, "refused %d requests on %s, which did not prove the secret", self._unproven, frame[0]
            )
            self._connection.publish(frame[1], self._proofs.refusal)
        return proven

    def _begin(self, name: str, work: Coroutine[None, None, None]) -> None:
        self._tasks.start(work, name)

    async def _answer_plan(self, reply: bytes, proven: Proven, request: PlanRequest) -> None:
        """Answer with the work that there is, as soon as there is some or after a while."""
        deadline = asyncio.get_running_loop().time() + IDLE_S
        while True:
            self._pending.grown.clear()
            self._pending.is_new = False
            works = await self._planning.plan(request)
            left_s = deadline - asyncio.get_running_loop().time()
            if works or left_s <= 0 or (request.has_sql and self._checks.is_waiting):
                break
            wait_s = min(left_s, LOOK_NS / 1e9) if any(True for _ in self._pending) else left_s
            try:
                async with asyncio.timeout(wait_s):
                    await self._pending.grown.wait()
                if not self._pending.is_new:
                    await asyncio.sleep(SETTLE_S)
            except TimeoutError:
                pass
        self.plans += bool(works)
        self.jobs.planned(request.name, works, self._origin_of)
        checks = self._checks.hand_out() if request.has_sql else ()
        plan = Plan(works=tuple(works), checks=checks)
        self._connection.publish(reply, self._proofs.answer(proven, encode(plan)))

    def _origin_of(self, work: Work) -> str:
        found = (upstream for upstream in self.of(work.target) if upstream.id == work.upstream)
        return next((upstream.source.name for upstream in found), "")

    async def _answer_commit(self, reply: bytes, proven: Proven) -> None:
        try:
            committed = await self._commits.answer(proven.body)
        except msgspec.DecodeError as error:
            logger.warning("cannot decode a replicator's receipts: %s", error)
            return
        self.commits += 1
        self._connection.publish(reply, self._proofs.answer(proven, encode(committed)))
        self._pending.grown.set()


def _is_asked(frame: Frame) -> bool:
    """Return whether the sender waits for an answer.

    A client that may not publish here could have the engine do so, as an answer or a delivery. Those have no
    reply subject, or one for acks.
    """
    return bool(frame[1]) and not frame[1].startswith(b"$JS.")
