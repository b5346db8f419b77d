"""The jobs of replicators as the engine sees them: what they copy, and what came of it.

A plan is one Spark job, and each of its ranges is one task. A job ends when all of its receipts were
answered, or when its replicator does not work on it any more.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.model.times import SECOND
from headwater.replication.work import Receipt, Work

MOST_ENDED = 50
MOST_FAILED = 20
MOST_RUNNING = 50
"""More are counted as lost: a replicator runs a few at a time."""
MOST_COPIES = 10
"""How many sources and mirrors a job names; the others are counted."""
MOST_LETTERS = 500
LOST = "the replicator does not work on it any more"


@dataclass
class ReplicatorJob:
    """One plan in the hands of a replicator."""

    replicator: str
    began_ns: int
    """When the plan was sent, in wall time."""
    tasks: int
    copies: Counter[tuple[str, str]]
    """How many tasks copy what: by the stream and its origin."""
    kinds: Counter[str]
    """How many tasks read files, messages that are not in a file yet, or a remote origin."""
    read_bytes: int
    left: set[str] = field(default_factory=set)
    """The ranges without a receipt."""
    ended_ns: int = 0
    """0 while it runs."""
    messages: int = 0
    failed: int = 0
    """Tasks whose receipt was refused or has an error."""
    error: str = ""
    """The last error."""

    def shown(self, now_ns: int) -> dict[str, Any]:
        """Return the job as JSON values."""
        seconds = max((self.ended_ns or now_ns) - self.began_ns, 0) / SECOND
        named = self.copies.most_common(MOST_COPIES)
        return {
            "replicator": self.replicator,
            "began_s": self.began_ns / SECOND,
            "seconds": round(seconds, 3),
            "is_running": not self.ended_ns,
            "tasks": self.tasks,
            "done": self.tasks - len(self.left),
            "failed": self.failed,
            "kinds": dict(self.kinds),
            "copies": [{"stream": stream, "origin": origin, "tasks": n} for (stream, origin), n in named],
            "more_copies": len(self.copies) - len(named),
            "read_bytes": self.read_bytes,
            "messages": self.messages,
            "messages_per_s": round(self.messages / seconds, 1) if seconds else None,
            "error": self.error,
        }


class ReplicatorJobs:
    """The jobs that run, and the last ones that ended; runs on the event loop."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        """Returns the wall time."""
        self._running: list[ReplicatorJob] = []
        self._ended: deque[ReplicatorJob] = deque(maxlen=MOST_ENDED)
        self._failed: deque[ReplicatorJob] = deque(maxlen=MOST_FAILED)
        """Those with an error once more: many short jobs would soon displace them."""

    def planned(self, replicator: str, works: Sequence[Work], origin_of: Callable[[Work], str]) -> None:
        """Record that a replicator was given a plan; one without work is no job."""
        if not works:
            return
        self._running.append(
            ReplicatorJob(
                replicator,
                self._now_ns(),
                len(works),
                Counter((work.target, origin_of(work)) for work in works),
                Counter(map(kind_of, works)),
                sum(work.read_bytes for work in works),
                {work.id for work in works},
            )
        )
        while len(self._running) > MOST_RUNNING:
            self._end(self._running[0], LOST)

    def returned(self, receipts: Sequence[Receipt], taken: Sequence[int], refused: Sequence[str]) -> None:
        """Record the results of receipts."""
        for receipt, count, why in zip(receipts, taken, refused, strict=True):
            job = next((job for job in self._running if receipt.work in job.left), None)
            if job is None:
                continue
            job.left.discard(receipt.work)
            job.messages += count
            if error := receipt.error or why:
                job.failed += 1
                job.error = error[:MOST_LETTERS]
            if not job.left:
                self._end(job)

    def asked(self, replicator: str, under_way: Collection[str]) -> None:
        """End the jobs that a replicator does not name any more: it has lost them."""
        known = set(under_way)
        for job in [job for job in self._running if job.replicator == replicator]:
            if not job.left & known:
                self._end(job, LOST)

    def forget_others(self, replicator: str) -> None:
        """End the jobs of all other replicators: there is only this one."""
        for job in [job for job in self._running if job.replicator != replicator]:
            self._end(job, LOST)

    def _end(self, job: ReplicatorJob, error: str = "") -> None:
        self._running.remove(job)
        job.ended_ns = self._now_ns()
        job.error = error or job.error
        self._ended.append(job)
        if job.error:
            self._failed.append(job)

    def listed(self) -> list[dict[str, Any]]:
        """Return the jobs that run and the last ones, the newest first."""
        now_ns = self._now_ns()
        failed = [job for job in self._failed if not any(job is ended for ended in self._ended)]
        return [job.shown(now_ns) for job in reversed([*failed, *self._ended, *self._running])]


def kind_of(work: Work) -> str:
    """Return what a task reads."""
    return "remote" if work.origin is not None else "files" if work.files else "messages"
