"""Fast ingest: messages numbered by their publisher, stored on arrival, acknowledged many at a time.

The reply subject of each message says which batch it belongs to and where in it:
`<prefix>.<batch>.<flow>.<ok|fail>.<sequence>.<operation>.$FI`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from headwater.errors import ApiError, api_error
from headwater.model.api_level import level_is_enough
from headwater.model.times import SECOND
from headwater.stream.retention.quota import Quota

SUFFIX = b".$FI"
MAX_OPEN = 1000
"""The most open batches of one stream."""
MAX_OPEN_IN_ALL = 50_000
"""The most open batches of all streams."""
MAX_ID_BYTES = 64
IDLE_NS = 10 * SECOND
MOST_UNACKNOWLEDGED = 500
"""How many messages, over the batches of a stream, are stored between two acknowledgements."""
_DEFAULT_FLOW = 10
_MOST_FLOW = (1 << 16) - 1


class Operation(IntEnum):
    """What a message of a batch is for."""

    START = 0
    APPEND = 1
    COMMIT = 2
    END = 3
    PING = 4


class FastMessage(NamedTuple):
    """What the reply subject of a message says."""

    batch_id: bytes
    flow: int
    gap_ok: bool
    sequence: int
    operation: Operation


class FlowReply(NamedTuple):
    """An answer that steers the publisher."""

    body: dict[str, object]


class Ack(NamedTuple):
    """The last answer of a batch."""

    seq: int
    more: dict[str, object]


Answer = FlowReply | Ack | ApiError


class DuplicateError(Exception):
    """The message was stored before, at this sequence; 0 if that is not known."""

    def __init__(self, seq: int) -> None:
        super().__init__(seq)
        self.seq = seq


def parse_reply(reply: bytes) -> FastMessage | None:
    """Return what the reply subject of a fast batch says, or None if it is invalid."""
    parts = reply.removesuffix(SUFFIX).rsplit(b".", 5)
    if len(parts) < 6:
        return None
    _, batch_id, flow, gap, sequence, operation = parts
    if gap not in (b"ok", b"fail") or operation not in (b"0", b"1", b"2", b"3", b"4"):
        return None
    number = int(sequence) if sequence.isdigit() and len(sequence) < 20 else 0
    does = Operation(int(operation))
    follows = does in (Operation.APPEND, Operation.END)
    if not number or (does is Operation.START and number != 1) or (follows and number == 1):
        return None
    asked = int(flow) if flow.isdigit() and len(flow) < 20 else 0
    return FastMessage(batch_id, min(asked, _MOST_FLOW) or _DEFAULT_FLOW, gap == b"ok", number, does)


class _OpenFastBatch:
    """A batch that waits for more messages."""

    def __init__(self, message: FastMessage) -> None:
        self.gap_ok = message.gap_ok
        """Whether the batch continues after a lost message."""
        self.most_flow = message.flow
        """The flow that the publisher asked for."""
        self.flow = 1
        """How many messages go by between two acknowledgements."""
        self.last = 0
        """The sequence, in the batch, of the newest message."""
        self.stored = 0
        """The sequence, in the batch, up to which all that will be is stored."""
        self.acknowledged = 0
        """The sequence, in the batch, of the last acknowledgement."""
        self.seq = 0
        """The sequence, in the stream, of the newest message stored."""
        self.idle_since_ns = 0
        """When its last message arrived."""

    def ack(self) -> FlowReply:
        """Return the answer that lets the publisher continue."""
        return FlowReply({"type": "ack", "seq": self.acknowledged, "msgs": self.flow})


class FastBatches:
    """The open batches of one stream."""

    def __init__(self, quota: Quota) -> None:
        self._quota = quota
        self._open: dict[bytes, _OpenFastBatch] = {}
        """By id, the one idle longest first."""

    def __len__(self) -> int:
        return len(self._open)

    def offer(
        self, message: FastMessage, headers: bytes, now_ns: int, store: Callable[[], int]
    ) -> list[Answer]:
        """Take one message; `store` stores it and returns its sequence, or raises why not.

        Raises the ApiError that refuses the message as if it were a single one.
        """
        batch = self._find(message)
        batch.idle_since_ns = now_ns
        self._open[message.batch_id] = self._open.pop(message.batch_id)
        if not level_is_enough(headers):
            self._close(message.batch_id)
            raise api_error("required_api_level")
        if message.operation is Operation.PING:
            return self._ping(batch, message)
        gaps = self._gap(batch, message.sequence)
        if gaps and not (batch.gap_ok and message.sequence > batch.last):
            return [*gaps, self._end(message.batch_id, batch)]
        if message.operation is Operation.END:
            batch.last = batch.stored = message.sequence - 1
            return [*gaps, self._end(message.batch_id, batch)]
        batch.last = message.sequence
        begins = message.sequence == 1 and message.operation is not Operation.COMMIT
        first = [FlowReply({"type": "ack", "seq": 0, "msgs": batch.flow})] if begins else []
        return [*gaps, *first, *self._store(batch, message, store)]

    def _find(self, message: FastMessage) -> _OpenFastBatch:
        if len(message.batch_id) > MAX_ID_BYTES:
            raise api_error("batch_publish_invalid_batch_id")
        batch = self._open.get(message.batch_id)
        if batch is not None:
            return batch
        if message.sequence != 1:
            raise api_error("batch_publish_unknown_batch_id")
        if len(self._open) >= MAX_OPEN or self._quota.open >= MAX_OPEN_IN_ALL:
            raise api_error("batch_publish_too_many_inflight")
        self._quota.open += 1
        batch = self._open[message.batch_id] = _OpenFastBatch(message)
        # A publisher that is not alone begins slowly.
        batch.flow = 1 if len(self._open) > 1 else min(MOST_UNACKNOWLEDGED, message.flow)
        return batch

    def _ping(self, batch: _OpenFastBatch, message: FastMessage) -> list[Answer]:
        if message.sequence <= batch.last:
            return [batch.ack()]
        gap = FlowReply({"type": "gap", "last_seq": batch.last + 1, "seq": message.sequence + 1})
        if not batch.gap_ok:
            return [gap, self._end(message.batch_id, batch)]
        batch.last = batch.stored = message.sequence
        return [gap, *(self._acknowledgement(batch) or [batch.ack()])]

    def _gap(self, batch: _OpenFastBatch, sequence: int) -> list[FlowReply]:
        if sequence == batch.last + 1:
            return []
        return [FlowReply({"type": "gap", "last_seq": batch.last + 1, "seq": sequence})]

    def _store(self, batch: _OpenFastBatch, message: FastMessage, store: Callable[[], int]) -> list[Answer]:
        commits = message.operation is Operation.COMMIT
        answers: list[Answer] = []
        try:
            batch.seq = store()
            batch.stored = batch.last
            if not commits:
                return [*self._acknowledgement(batch)]
        except DuplicateError as duplicate:
            batch.stored = batch.last
            answers += self._acknowledgement(batch)
            if commits and batch.last == 1 and not message.gap_ok and duplicate.seq:
                return [*answers, self._end(message.batch_id, batch, Ack(duplicate.seq, {"duplicate": True}))]
            if not commits:
                return answers
        except ApiError as error:
            if batch.last == 1 and not message.gap_ok:
                self._close(message.batch_id)
                return [error]
            answers.append(FlowReply({"type": "err", "seq": message.sequence, "error": _error(error)}))
            if message.gap_ok and not commits:
                return answers
            batch.last = batch.stored = batch.last - 1
        return [*answers, self._end(message.batch_id, batch)]

    def _acknowledgement(self, batch: _OpenFastBatch) -> list[FlowReply]:
        """Return an acknowledgement if one is due, and change the publisher's rate."""
        steps = (batch.stored - batch.acknowledged) // batch.flow
        if not steps:
            return []
        batch.acknowledged += steps * batch.flow
        most = min(max(1, MOST_UNACKNOWLEDGED // len(self._open)), batch.most_flow)
        if batch.flow < most:
            batch.flow = min(batch.flow * 2, most)
        elif batch.flow > most:
            batch.flow = max(batch.flow // 2, most)
        return [batch.ack()]

    def _end(self, batch_id: bytes, batch: _OpenFastBatch, ack: Ack | None = None) -> Ack:
        """Close a batch and return its last answer."""
        self._close(batch_id)
        ack = ack or Ack(batch.seq, {})
        return Ack(ack.seq, {**ack.more, "batch": batch_id.decode(errors="replace"), "count": batch.last})

    def next_ns(self) -> int | None:
        """Return when the batch idle longest is given up."""
        oldest = next(iter(self._open.values()), None)
        return oldest.idle_since_ns + IDLE_NS if oldest else None

    def give_up_idle(self, now_ns: int) -> None:
        """Abandon the batches that got no message in time."""
        for name, batch in list(self._open.items()):
            if batch.idle_since_ns + IDLE_NS <= now_ns:
                self._close(name)

    def clear(self) -> None:
        """Forget all batches."""
        for name in list(self._open):
            self._close(name)

    def _close(self, batch_id: bytes) -> None:
        del self._open[batch_id]
        self._quota.open -= 1


def _error(error: ApiError) -> dict[str, object]:
    return {"code": error.code, "err_code": error.err_code, "description": error.description}
