"""Messages of an origin that keeps them until they are acknowledged, by a durable pull consumer of ours.

1. Where something was delivered that is not in the target, the consumer is set back to its ack floor.
2. As many messages as are pending are pulled, in order; what is in the target already is only noted.
3. Nothing is acknowledged here: the sequences go with the receipt, and the engine does it after the commit.

A crash anywhere leaves messages that were delivered and not acknowledged: they are at the origin, and step 1
has them delivered again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyroaring import BitMap64

from headwater.errors import BusError
from headwater.model import headers as header_block
from headwater.model.cursor import Cursor
from headwater.model.message import Message
from headwater.replication import durable
from headwater.replication.exports import broken_off, unanswered
from headwater.replication.work import NatsOrigin
from headwater.replication.worker.client import BlockingClient, ReplyTimeoutError, TaskInbox
from headwater.replication.worker.lost_end import lost_end
from headwater.wire.ack_subject import parse_ack_subject
from headwater.wire.frames import Frame

BATCH_MESSAGES = 10_000
BATCH_BYTES = 8 << 20
EXPIRES_S = 5
ANSWER_S = 20.0
_ENDS = {404, 408, 409}


class PullReader:
    """Reads what is pending; `settled` is what may be acknowledged once that is committed."""

    def __init__(
        self, client: BlockingClient, origin: NatsOrigin, filters: tuple[str, ...], start_seq: int
    ) -> None:
        self.settled = BitMap64()
        self.ack_key = ""
        self.through = start_seq - 1
        self._client = client
        self._origin = origin
        self._filters = filters
        self._covered = Cursor(origin.identity, origin.covered_seq, origin.covered_ts)
        self._delivered = 0
        self._pending = 0
        self._messages_left = origin.max_messages
        self._bytes_left = origin.max_bytes

    def read(self) -> Iterator[list[Message]]:
        """Yield messages in order, until none is pending or the bounds are reached."""
        info = self._asked("INFO")
        if self._origin.rewinds or info["delivered"]["stream_seq"] > self.through:
            info = self._rewound(info)
        self._delivered = info["delivered"]["consumer_seq"]
        self._pending = info["num_pending"]
        if (limit := info["config"].get("max_ack_pending", 0)) > 0:
            # More is not delivered before some of it is acknowledged.
            self._messages_left = min(self._messages_left, limit - info["num_ack_pending"])
        largest = BATCH_BYTES
        while self._pending and self._messages_left > 0 and self._bytes_left > 0:
            before = self._delivered
            yield from self._batch(largest)
            if self._delivered > before:
                largest = BATCH_BYTES
            elif largest:
                largest = 0  # the next one alone is larger
            else:
                return

    def _batch(self, max_bytes: int) -> Iterator[list[Message]]:
        """Yield one batch; without `max_bytes` a single message."""
        asked: dict[str, int] = {"batch": 1, "expires": EXPIRES_S * 1_000_000_000}
        if max_bytes:
            asked["batch"] = min(BATCH_MESSAGES, self._pending, self._messages_left)
            asked["max_bytes"] = max_bytes
        inbox = self._client.open()
        self._client.publish(self._subject("MSG.NEXT"), json.dumps(asked).encode(), inbox.subject)
        left = asked["batch"]
        while left > 0:
            messages = []
            for frame in self._arrived(inbox):
                if frame[2].startswith(b"NATS/1.0 ") and (status := header_block.status(frame[2])):
                    if status.code == 100:
                        continue
                    self._end(status.code, status.description)
                    left = 0
                    break
                left -= 1
                if (message := self._message(frame)) is not None:
                    messages.append(message)
            if messages:
                yield messages
        self._client.shut(inbox)

    def _arrived(self, inbox: TaskInbox) -> list[Frame]:
        """Return what has come; a pull ends in time, so silence means that its end was kept from us."""
        try:
            return inbox.read(ANSWER_S)
        except ReplyTimeoutError:
            raise BusError(broken_off(self._subject("MSG.NEXT").decode())) from None

    def _end(self, code: int, description: bytes) -> None:
        """Take the end of a batch before it was full; refuse one that means more than that."""
        if code == 503:
            raise BusError(unanswered(self._subject("MSG.NEXT").decode()))
        gone = code == 409 and b"MaxBytes" not in description and b"Batch Completed" not in description
        if code not in _ENDS or gone:
            raise BusError(f"the consumer of {self._origin.stream!r}: {description.decode(errors='replace')}")
        if code != 409:
            self._pending = 0

    def _message(self, frame: Frame) -> Message | None:
        """Return a delivered message unless it is in the target already or came before."""
        subject, reply, headers, data = frame
        ack = parse_ack_subject(reply)
        if ack is None or ack.consumer_seq != self._delivered + 1:
            raise BusError("a message was lost on its way")
        if not self.ack_key:
            self.ack_key = durable.ack_key(reply)
        self._delivered = ack.consumer_seq
        self._pending = ack.pending
        if ack.stream_seq <= self._covered.seq and not self._covered.covers(ack.stream_seq, ack.ts):
            raise BusError(lost_end(self._origin.stream))
        self.settled.add(ack.stream_seq)
        self._messages_left -= 1
        self._bytes_left -= len(subject) + len(headers) + len(data)
        if ack.stream_seq <= self.through:
            return None
        self.through = ack.stream_seq
        return Message(ack.stream_seq, ack.ts, subject, headers, data)

    def _rewound(self, info: dict[str, Any]) -> dict[str, Any]:
        """Return how the consumer stands after it was set back to what is not acknowledged."""
        # Behind its ack floor it does not go: that of a stream that has lost its end may be too high.
        floor_seq = info.get("ack_floor", {}).get("stream_seq", 0)
        if durable.can_reset(info) and floor_seq <= self.through:
            return self._asked("RESET")
        if info["config"].get("opt_start_seq") == self.through + 1 and not info["delivered"]["consumer_seq"]:
            return info
        # Older servers: it is made anew. Where messages stay by interest, a spare one keeps it meanwhile.
        name, spare = self._origin.durable, self._origin.durable + durable.SPARE
        if self._origin.retention == "interest":
            # One may be left of a task that ended in the midst of this.
            self._client.request(self._subject("DELETE", spare).decode())
            self._create(spare, self.through + 1)
        self._asked("DELETE")
        start_seq = self.through + 1 if self._origin.retention == "interest" else 0
        made = self._create(name, start_seq)
        if self._origin.retention == "interest":
            self._asked("DELETE", spare)
        return made

    def _create(self, name: str, start_seq: int) -> dict[str, Any]:
        asked: dict[str, Any] | None
        asked = durable.create_request(self._origin.stream, name, self._filters, start_seq)
        subject = f"{self._origin.api_prefix}.CONSUMER.DURABLE.CREATE.{self._origin.stream}.{name}"
        answer: dict[str, Any] = {}
        while asked is not None:
            answer = self._client.request(subject, asked)
            asked = durable.simpler_request(asked, answer.get("error", {}).get("err_code", 0))
        return self._checked(answer)

    def _asked(self, what: str, name: str = "") -> dict[str, Any]:
        return self._checked(self._client.request(self._subject(what, name).decode()))

    def _checked(self, answer: dict[str, Any]) -> dict[str, Any]:
        if error := answer.get("error"):
            raise BusError(f"the consumer of {self._origin.stream!r}: {error.get('description')}")
        return answer

    def _subject(self, what: str, name: str = "") -> bytes:
        origin = self._origin
        return f"{origin.api_prefix}.CONSUMER.{what}.{origin.stream}.{name or origin.durable}".encode()
