"""Atomic batches: messages are held back until the last one commits all of them.

Nothing of a batch is in the stream before its commit. A crash, a gap or ten idle seconds end it without a
trace. The publisher gets an error for the next message it sends.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from headwater.errors import ApiError, api_error
from headwater.model import headers as header_block
from headwater.model.api_level import REQUIRED_HEADER, level_is_enough
from headwater.model.times import SECOND
from headwater.stream.retention.quota import Quota

MAX_MESSAGES = 1000
MAX_OPEN = 50
"""The most open batches of one stream."""
MAX_OPEN_IN_ALL = 1000
"""The most open batches of all streams."""
MAX_BYTES = 256 << 20
"""The most bytes held back for one stream."""
IDLE_NS = 10 * SECOND
MAX_ID_BYTES = 64

BatchMessage = tuple[bytes, bytes, bytes]
"""Subject, headers, data of one message."""


class Abandoned(StrEnum):
    """Why a batch was abandoned."""

    TIMEOUT = "timeout"
    LARGE = "large"
    INCOMPLETE = "incomplete"
    UNSUPPORTED = "unsupported"


class Step(NamedTuple):
    """What became of one message of a batch: held back, refused, or the one that commits."""

    messages: Sequence[BatchMessage] | None = None
    """All messages to store, if this one commits."""
    error: ApiError | None = None
    abandoned: Abandoned | None = None


class _OpenAtomicBatch:
    """A batch that waits for more messages."""

    def __init__(self) -> None:
        self.items: list[BatchMessage] = []
        self.nbytes = 0
        self.idle_since_ns = 0
        """When its last message arrived."""


class AtomicBatches:
    """The open batches of one stream."""

    def __init__(self, quota: Quota) -> None:
        self._quota = quota
        self._open: dict[bytes, _OpenAtomicBatch] = {}
        """By id, the one idle longest first."""
        self.nbytes = 0
        """The size of all open batches."""

    def __len__(self) -> int:
        return len(self._open)

    def offer(self, batch_id: bytes, subject: bytes, headers: bytes, data: bytes, now_ns: int) -> Step:
        """Take one message of a batch."""
        if len(batch_id) > MAX_ID_BYTES:
            return _refused("atomic_publish_invalid_batch_id")
        sequence = _sequence(headers)
        if sequence is None:
            return _refused("atomic_publish_missing_seq")
        commit = header_block.get(headers, b"Nats-Batch-Commit")
        ends = commit == b"eob"
        too_large = sequence - ends > MAX_MESSAGES
        batch = self._open.get(batch_id)
        if batch is None:
            if sequence != 1:
                return _too_large() if too_large else _refused("atomic_publish_incomplete_batch")
            if len(self._open) >= MAX_OPEN or self._quota.open >= MAX_OPEN_IN_ALL:
                return _refused("atomic_publish_too_many_inflight")
            batch = self._begin(batch_id)
        if commit not in (None, b"1", b"eob"):
            self._end(batch_id)
            return _refused("atomic_publish_invalid_batch_commit")
        if header_block.get(headers, REQUIRED_HEADER):
            if not level_is_enough(headers):
                self._end(batch_id)
                return _refused("required_api_level", Abandoned.UNSUPPORTED)
            headers = header_block.remove(headers, REQUIRED_HEADER)
        if sequence != len(batch.items) + 1 or (ends and sequence == 1):
            self._end(batch_id)
            return _refused("atomic_publish_incomplete_batch", Abandoned.INCOMPLETE)
        if too_large:
            self._end(batch_id)
            return _too_large(Abandoned.LARGE)
        if ends:
            last_subject, last_headers, last_data = batch.items[-1]
            marked = header_block.add(last_headers, b"Nats-Batch-Commit", b"1")
            batch.items[-1] = (last_subject, marked, last_data)
        else:
            self._hold(batch_id, batch, (subject, headers, data), now_ns)
        if commit is not None:
            self._end(batch_id)
            return Step(batch.items)
        if self.nbytes > MAX_BYTES:
            self._end(batch_id)
            return _refused("insufficient_resources", Abandoned.LARGE)
        return Step()

    def next_ns(self) -> int | None:
        """Return when the batch idle longest is given up."""
        oldest = next(iter(self._open.values()), None)
        return oldest.idle_since_ns + IDLE_NS if oldest else None

    def give_up_idle(self, now_ns: int) -> list[bytes]:
        """Abandon the batches that got no message in time; return their ids."""
        idle = [name for name, batch in self._open.items() if batch.idle_since_ns + IDLE_NS <= now_ns]
        for name in idle:
            self._end(name)
        return idle

    def clear(self) -> None:
        """Forget all batches."""
        for name in list(self._open):
            self._end(name)

    def _begin(self, batch_id: bytes) -> _OpenAtomicBatch:
        self._quota.open += 1
        batch = self._open[batch_id] = _OpenAtomicBatch()
        return batch

    def _hold(self, batch_id: bytes, batch: _OpenAtomicBatch, item: BatchMessage, now_ns: int) -> None:
        size = sum(map(len, item))
        batch.items.append(item)
        batch.nbytes += size
        batch.idle_since_ns = now_ns
        self.nbytes += size
        self._open[batch_id] = self._open.pop(batch_id)

    def _end(self, batch_id: bytes) -> None:
        self.nbytes -= self._open.pop(batch_id).nbytes
        self._quota.open -= 1


def _sequence(headers: bytes) -> int | None:
    """Return the place of a message in its batch."""
    value = header_block.get(headers, b"Nats-Batch-Sequence")
    if not value or not value.isdigit() or len(value) > 20:
        return None
    number = int(value)
    return number if number < 1 << 64 else None


def _refused(row: str, abandoned: Abandoned | None = None) -> Step:
    return Step(error=api_error(row), abandoned=abandoned)


def _too_large(abandoned: Abandoned | None = None) -> Step:
    return Step(error=api_error("atomic_publish_too_large_batch", size=MAX_MESSAGES), abandoned=abandoned)
