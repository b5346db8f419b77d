"""What replicators hand in: a receipt enters its target with the cursor it was planned from, or not at all.

1. The piece of work is known, and its upstream is still declared.
2. Its messages enter the target, which moves the cursor.
3. The origin may let go of them: a stream here by its hold, one elsewhere by acknowledgements.
4. The upstream is free for the next plan.

A crash anywhere leaves the cursor where the target's messages end, and the next plan begins there.
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
from headwater.upstreams.durables import Durables
from headwater.upstreams.holds import UpstreamHolds
from headwater.upstreams.leases import Leases
from headwater.upstreams.planner import CursorAt
from headwater.upstreams.staging import remove_staged
from headwater.upstreams.upstream import Upstream

logger = logging.getLogger(__name__)

REMEMBERED = 100
UNKNOWN = "nobody waits for this receipt any more"


class Commits:
    """Takes receipts into the streams of an account."""

    def __init__(
        self,
        upstreams_of: Callable[[str], Iterable[Upstream]],
        under_way: Leases,
        holds: UpstreamHolds,
        durables: Durables,
        clock: Clock,
    ) -> None:
        self._upstreams_of = upstreams_of
        self._under_way = under_way
        self._holds = holds
        self._durables = durables
        self._clock = clock
        self._lately: dict[bytes, asyncio.Task[Committed]] = {}
        """What became of receipts that were handed in lately, by what they are."""

    async def answer(self, body: bytes) -> Committed:
        """Return what became of receipts, and the same again to who hands them in again soon after."""
        key = blake2b(body).digest()
        committing = self._lately.get(key)
        if committing is None or (committing.done() and committing.exception() is not None):
            while len(self._lately) >= REMEMBERED:
                del self._lately[next(iter(self._lately))]
            committing = self._lately[key] = asyncio.create_task(self._all(body), name="commit")
        return await asyncio.shield(committing)

    async def _all(self, body: bytes) -> Committed:
        taken: list[int] = []
        refused: list[str] = []
        for run in receipts.runs(decode_receipts(body), self._under_way.identities):
            count, why = await self._commit(receipts.joined(run), [receipt.work for receipt in run])
            taken += [count, *[0] * (len(run) - 1)]
            refused += [why] * len(run)
        return Committed(taken=tuple(taken), refused=tuple(refused))

    async def _commit(self, receipt: Receipt, works: Sequence[str]) -> tuple[int, str]:
        """Take the receipt of some works into its target; return how many messages it brought, or why not."""
        found = [u for u in self._upstreams_of(receipt.target) if u.id == receipt.upstream]
        identity = self._under_way.identities.get(receipt.work)
        # A target that was deleted and made again has the name, and is not the one that the work was for.
        if not found or identity is None or not self._under_way.are_of(found[0], works):
            await self._forget(receipt)
            return 0, UNKNOWN
        upstream = found[0]
        awaited = self._under_way.came_in(upstream, works)
        try:
            return await self._enter(upstream, receipt, CursorAt(identity, receipt.through, receipt.ts))
        finally:
            # Only now: what was planned meanwhile would begin at a cursor that moves on.
            for _ in range(awaited):
                upstream.came_back()

    async def _forget(self, receipt: Receipt) -> None:
        """Remove what a task staged for work that nobody waits for, if its target's directory is there."""
        for upstream in list(self._upstreams_of(receipt.target))[:1]:
            adopted = (file.name for file in receipt.adopted)
            await remove_staged(upstream.target, (receipt.path, receipt.sums, *adopted))

    async def _enter(self, upstream: Upstream, receipt: Receipt, cursor_at: CursorAt) -> tuple[int, str]:
        size_before = upstream.target.replica.copied_bytes[upstream.id]
        try:
            if receipt.error:
                raise upstream.failure(receipt.error)
            taken = await receipts.take(upstream, receipt, cursor_at)
        except CursorMovedError as error:
            return 0, str(error)
        except ApiError as error:
            upstream.failed(error, self._clock.now_ns())
            return 0, receipt.error or error.description
        except Exception as error:
            if not isinstance(error, Error | OSError):
                logger.exception("%s: a receipt could not be taken in", upstream)
            upstream.failed(upstream.failure(str(error)), self._clock.now_ns())
            return 0, str(error)
        finally:
            self._holds.committed(upstream)
            # A file that the target's log names is its own from then on; others are swept when it opens.
            await remove_staged(upstream.target, (receipt.path, receipt.sums))
        now_ns = self._clock.now_ns()
        size = upstream.target.replica.copied_bytes[upstream.id] - size_before
        upstream.pace.committed(taken, size, receipt.through, now_ns)
        self._durables.committed(upstream, receipt)
        upstream.took(taken, receipt.through)
        upstream.moved(now_ns)
        return taken, ""
