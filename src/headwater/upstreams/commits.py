"""Committing receipts: a receipt enters its target with the cursor it was planned from, or not at all.

1. Check that the range is known and its upstream is still declared.
2. Write its messages to the target, which moves the cursor.
3. Release them at the origin: a local one through its hold, a remote one by acknowledgements.
4. Return the upstream to the planner.

A crash at any point leaves the cursor where the target's messages end, and the next plan begins there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

from headwater.clock import Clock
from headwater.errors import ApiError, Error
from headwater.replication.work import Committed, Receipt, decode_receipts
from headwater.stream.replica.importer import CursorMovedError
from headwater.upstreams import receipts
from headwater.upstreams.dead_letter_box import DeadLetterBox, stop_text
from headwater.upstreams.durables import Durables
from headwater.upstreams.holds import UpstreamHolds
from headwater.upstreams.leases import Leases
from headwater.upstreams.planner import CursorAt
from headwater.upstreams.replicator_jobs import ReplicatorJobs
from headwater.upstreams.staging import remove_staged
from headwater.upstreams.upstream import Upstream

logger = logging.getLogger(__name__)

REMEMBERED = 100
UNKNOWN = "the engine does not expect this receipt any more"


class Commits:
    """Writes receipts to the streams of an account."""

    def __init__(
        self,
        upstreams_of: Callable[[str], Iterable[Upstream]],
        leases: Leases,
        holds: UpstreamHolds,
        durables: Durables,
        clock: Clock,
        jobs: ReplicatorJobs,
        dead_letters: DeadLetterBox,
    ) -> None:
        self._jobs = jobs
        self._dead_letters = dead_letters
        self._upstreams_of = upstreams_of
        """Returns the upstreams of a stream by its name."""
        self._leases = leases
        self._holds = holds
        self._durables = durables
        self._clock = clock
        self._recent: dict[bytes, asyncio.Task[Committed]] = {}
        """The results of recent receipts by their digest, so that a repeated request gets the same answer."""

    async def answer(self, body: bytes) -> Committed:
        """Return the results of receipts; the same receipts sent again soon get the same results."""
        key = blake2b(body).digest()
        committing = self._recent.get(key)
        if committing is None or (committing.done() and committing.exception() is not None):
            while len(self._recent) >= REMEMBERED:
                del self._recent[next(iter(self._recent))]
            committing = self._recent[key] = asyncio.create_task(self._all(body), name="commit")
        return await asyncio.shield(committing)

    async def _all(self, body: bytes) -> Committed:
        taken: list[int] = []
        refused: list[str] = []
        decoded = decode_receipts(body)
        for run in receipts.runs(decoded, self._leases.identities):
            count, why = await self._commit(receipts.joined(run), [receipt.work for receipt in run])
            taken += [count, *[0] * (len(run) - 1)]
            refused += [why] * len(run)
        self._jobs.returned(decoded, taken, refused)
        return Committed(taken=tuple(taken), refused=tuple(refused))

    async def _commit(self, receipt: Receipt, works: Sequence[str]) -> tuple[int, str]:
        """Write the receipt of some ranges to its target; return its message count, or why it is refused."""
        found = [u for u in self._upstreams_of(receipt.target) if u.id == receipt.upstream]
        identity = self._leases.identities.get(receipt.work)
        # A target that was deleted and re-created has the same name, but the work was not planned for it.
        if not found or identity is None or not self._leases.belong_to(found[0], works):
            await self._forget(receipt)
            return 0, UNKNOWN
        upstream = found[0]
        awaited = self._leases.returned(upstream, works)
        try:
            return await self._enter(upstream, receipt, CursorAt(identity, receipt.through, receipt.ts))
        finally:
            # Only now: a range planned in the meantime would begin at a cursor that is about to move.
            for _ in range(awaited):
                upstream.range_returned()

    async def _forget(self, receipt: Receipt) -> None:
        """Remove the files that a task staged for an unexpected range, if the target still exists."""
        for upstream in list(self._upstreams_of(receipt.target))[:1]:
            adopted = (file.name for file in receipt.adopted)
            await remove_staged(upstream.target, (receipt.path, receipt.sums, *adopted))
            await self._dead_letters.forget(upstream, receipt)

    async def _enter(self, upstream: Upstream, receipt: Receipt, cursor_at: CursorAt) -> tuple[int, str]:
        size_before = upstream.target.replica.copied_bytes[upstream.id]
        try:
            if receipt.error:
                raise upstream.failure(receipt.error)
            buried = await self._dead_letters.put(upstream, receipt, cursor_at.identity)
            taken = await receipts.take(upstream, receipt, cursor_at)
        except CursorMovedError as error:
            return 0, str(error)
        except ApiError as error:
            upstream.failed(error, self._clock.now_ns())
            return 0, receipt.error or error.description
        except Exception as error:
            if not isinstance(error, Error | OSError):
                logger.exception("%s: cannot commit a receipt", upstream)
            upstream.failed(upstream.failure(str(error)), self._clock.now_ns())
            return 0, str(error)
        finally:
            self._holds.committed(upstream)
            # A file that the target's log names belongs to the target now. Others are swept when it opens.
            await remove_staged(upstream.target, (receipt.path, receipt.sums))
            await self._dead_letters.forget(upstream, receipt)
        now_ns = self._clock.now_ns()
        size = upstream.target.replica.copied_bytes[upstream.id] - size_before
        upstream.pace.committed(taken, size, receipt.through, now_ns)
        self._durables.committed(upstream, receipt)
        upstream.took(taken if receipt.read < 0 else receipt.read, receipt.through)
        upstream.dead_letters += buried
        if receipt.stopped:
            upstream.failed(upstream.failure(stop_text(receipt.stopped)), now_ns)
        else:
            upstream.moved(now_ns)
        return taken, ""
