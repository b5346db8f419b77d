"""Reading a stream: every answer rests on durable changes only.

A question is asked again if changes that it may have seen were refused by the disk and undone meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from headwater.errors import ApiError, CorruptionError
from headwater.model.message import Message
from headwater.model.run import Run
from headwater.model.stream import LostMessages, StreamState
from headwater.objects.object_error import ObjectError
from headwater.stream.committer import Committer
from headwater.stream.ledger import Ledger
from headwater.stream.reader import Reader
from headwater.stream.selection import slices
from headwater.stream.store import Store

_T = TypeVar("_T")


class StreamReading:
    """Answers questions about the messages of one stream."""

    def __init__(self, store: Store, committer: Committer, reader: Reader) -> None:
        self._store = store
        self._committer = committer
        self._reader = reader
        self._known_bytes = 0
        """The last known size of the stream, for a disk that hangs."""

    @property
    def durable_seq(self) -> int:
        """Return the last sequence that would survive a power cut and can be read."""
        return self._store.durable_seq

    @property
    def generation(self) -> int:
        """Return a number that changes when refused changes are undone."""
        return self._store.generation

    @property
    def last_seq(self) -> int:
        """Return the last sequence that was ever assigned."""
        return self._store.ledger.last_seq

    @property
    def first_seq(self) -> int:
        """Return the first sequence, or the one after the last if there is no message."""
        return self._store.ledger.first_seq

    @property
    def durable_bytes(self) -> int | None:
        """Return how many bytes the stream holds; None while that is about to change or cannot be known."""
        if not self._committer.is_idle:
            return None
        self._known_bytes = self._store.ledger.size
        return self._known_bytes

    @property
    def messages(self) -> int:
        """Return how many messages the stream holds, with what is not durable yet."""
        return self._store.ledger.messages

    @property
    def num_subjects(self) -> int:
        """Return how many subjects these messages have."""
        return len(self._store.ledger.subjects)

    @property
    def num_deleted(self) -> int:
        """Return how many sequences between first and last hold no message."""
        return len(self._store.ledger.deleted)

    @property
    def size(self) -> int:
        """Return how much the stream holds, with what is not durable yet."""
        return self._store.ledger.size

    @property
    def known_bytes(self) -> int:
        """Return how many bytes the stream held when it last answered."""
        return self._known_bytes

    def is_live(self, seq: int) -> bool:
        """Return whether there is a message at a sequence."""
        return self._store.ledger.is_live(seq)

    def live_between(self, start_seq: int, stop_seq: int) -> int:
        """Return how many messages there are from `start_seq` to `stop_seq`, both included."""
        return self._store.ledger.live_between(start_seq, stop_seq)

    def live_rows(self, run: Run, start_seq: int = 0, at_most: int | None = None) -> npt.NDArray[np.intp]:
        """Return the live rows of a run from `start_seq` on, among the next `at_most` rows."""
        return self._store.ledger.live_rows(run, start_seq, at_most)

    async def run_at(self, seq: int) -> Run | None:
        """Return the first run that has a row at or after a sequence."""
        return await self._store.view.run_at(seq)

    def reach(self, seq: int) -> int:
        """Return the last sequence of the batch or file that holds this sequence, or would."""
        return self._store.view.reach(seq)

    def holding(self, run: Run) -> AbstractContextManager[None]:
        """Run a span, in which nothing is awaited, with a run in memory."""
        return self._store.view.holding(run)

    @property
    def is_remote(self) -> bool:
        """Return whether folded messages are in a bucket, where a read may take long."""
        return self._store.table.is_remote

    def resident_run(self, seq: int) -> Run | None:
        """Return the same run if it is in memory."""
        return self._store.view.resident_run_at(seq)

    def subject_at(self, seq: int) -> bytes | None:
        """Return the subject of a live message; may read its run, but raises if that is in a bucket."""
        if not self._store.ledger.is_live(seq):
            return None
        run = self._store.view.run_now(seq)
        return None if run is None else run.subjects[int(run.seqs.searchsorted(seq))]

    def subject_counts(self, filter: str) -> dict[bytes, int]:
        """Return how many messages there are on each matching subject."""
        subjects = self._store.ledger.subjects
        return {subject: subjects.count[subject] for subject in subjects.matching(filter)}

    async def counted_subjects(self, filter: str) -> dict[bytes, int]:
        """Return the same as `subject_counts`, without blocking the event loop."""
        count = self._store.ledger.subjects.count
        counts: dict[bytes, int] = {}
        for some in slices(list(await self._store.ledger.subjects.matched(filter))):
            counts.update({subject: count[subject] for subject in some if subject in count})
            await asyncio.sleep(0)
        return counts

    def deleted(self) -> list[int]:
        """Return the sequences between first and last that hold no message."""
        return list(self._store.ledger.deleted)

    async def message(self, seq: int) -> Message | None:
        """Return the message at a sequence."""
        return await self._answer(lambda: self._reader.message(seq))

    async def last(self, filter: str, up_to_seq: int | None = None) -> Message | None:
        """Return the newest message whose subject matches."""
        return await self._answer(lambda: self._reader.last(filter, up_to_seq))

    async def next(self, filter: str, start_seq: int) -> Message | None:
        """Return the oldest message from a sequence on whose subject matches."""
        return await self._answer(lambda: self._reader.next(filter, start_seq))

    async def seq_at(self, ts: int) -> int:
        """Return the first live sequence with a time not before `ts`; one past the last if there is none."""
        return await self._answer(lambda: self._reader.seq_at(ts))

    async def last_seqs(self, filters: Sequence[str], up_to_seq: int | None, limit: int) -> list[int] | None:
        """Return the newest sequence of every matching subject, ascending; None beyond `limit` subjects."""
        return await self._answer(lambda: self._reader.last_seqs(filters, up_to_seq, limit))

    async def pending(self, start_seq: int, filters: Sequence[str] = (), stop_seq: int | None = None) -> int:
        """Return how many live messages match from a sequence on, up to another if one is given."""
        return await self._answer(lambda: self._reader.pending(start_seq, filters, stop_seq))

    async def scan(
        self, start_seq: int, filters: Sequence[str] = (), stop_seq: int | None = None
    ) -> AsyncIterator[list[Message]]:
        """Yield live matching messages in order, many at a time."""
        while True:
            await self._committer.intact()
            # A file that is not in the table yet would be passed over.
            await self._store.adoptions.ended(self._store.ledger.last_seq)
            generation = self._store.generation
            async for messages in self._reader.scan(start_seq, filters, stop_seq):
                if not await self._is_durable(generation):
                    break
                yield messages
                start_seq = messages[-1].seq + 1
            else:
                return

    async def consistent(self) -> None:
        """Return once everything that the stream shows is durable, and what was refused is undone."""
        await self._answer(_nothing)

    async def state(self) -> StreamState:
        """Return what the stream holds, including files that are not in the table yet."""
        while True:
            await self._committer.intact()
            generation = self._store.generation
            state = await self._state()
            with suppress(ApiError):
                await self._committer.settled()
                if generation == self._store.generation:
                    self._known_bytes = state.bytes
                    return state

    def settled_state(self) -> StreamState | None:
        """Return what the stream holds if that is durable now; None if `state` would have to wait."""
        ledger = self._store.ledger
        if not self._committer.is_settled or (ledger.messages and ledger.first_ts is None):
            return None
        self._known_bytes = ledger.size
        return _ledger_state(ledger, ledger.first_ts or 0 if ledger.messages else 0)

    async def _answer(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Return the answer to a question once everything that it rests on is durable."""
        while True:
            await self._committer.intact()
            # The ledger counts messages of a file that is not in the table yet.
            await self._store.adoptions.ended()
            generation = self._store.generation
            answer = await ask()
            if await self._is_durable(generation):
                return answer

    async def _is_durable(self, generation: int) -> bool:
        """Wait until the ledger's changes are durable; return whether none was undone since a generation."""
        try:
            await self._committer.readable()
        except ApiError:
            return False
        return generation == self._store.generation

    async def _state(self) -> StreamState:
        state = _ledger_state(self._store.ledger)
        return msgspec.structs.replace(state, first_ts=await self._first_ts(self._store.ledger))

    async def _first_ts(self, ledger: Ledger) -> int:
        """Return when the first message was stored, 0 if there is none or it cannot be read."""
        if not ledger.messages:
            return 0
        if ledger.first_ts is not None:
            return ledger.first_ts
        first_seq = ledger.first_seq
        if (file := self._store.adoptions.holding(first_seq)) is not None:
            return file.first_ts  # the file cannot be read yet, but this must be answered now
        try:
            run = await self._store.view.run_at(first_seq)
        except (CorruptionError, ObjectError):
            return 0
        if run is None:
            return 0
        first_ts = int(run.ts[int(run.seqs.searchsorted(first_seq))])
        if ledger.first_seq == first_seq:
            ledger.first_ts = first_ts
        return first_ts


def _ledger_state(ledger: Ledger, first_ts: int = 0) -> StreamState:
    lost = tuple(ledger.lost)
    return StreamState(
        messages=ledger.messages,
        bytes=ledger.size,
        first_seq=ledger.first_seq,
        first_ts=first_ts,
        last_seq=ledger.last_seq,
        last_ts=ledger.last_ts,
        num_subjects=len(ledger.subjects),
        num_deleted=len(ledger.deleted),
        lost=LostMessages(lost, 0) if lost else None,
    )


async def _nothing() -> None:
    """Ask nothing."""
