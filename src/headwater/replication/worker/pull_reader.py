"""Reads an origin that keeps messages until they are acknowledged, through a durable pull consumer.

1. If something was delivered that is not in the target, reset the consumer to its ack floor.
2. Pull all pending messages in order; those already in the target are only recorded as settled.
3. Acknowledge nothing here: the receipt lists the sequences, and the engine acks them after the commit.

A crash at any point leaves delivered, unacknowledged messages. They are still at the origin, and step 1 has
them redelivered.
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
    """Reads what is pending; `settled` may be acknowledged once that is committed."""

    def __init__(
        self, client: BlockingClient, origin: NatsOrigin, filters: tuple[str, ...], start_seq: int
    ) -> None:
        self.settled = BitMap64()
        """Sequences that were received, copied or not."""
        self.ack_key = ""
        """What the ack subjects of the consumer have in common, once a message has arrived."""
        self.through = start_seq - 1
        self._client = client
        self._origin = origin
        self._filters = filters
        self._covered = Cursor(origin.identity, origin.covered_seq, origin.covered_ts)
        self._delivered = 0
        """The consumer sequence of the last delivery."""
        self._pending = 0
        """How many messages the consumer had left after the last delivery."""
        self._messages_left = origin.max_messages
        self._bytes_left = origin.max_bytes

    def read(self) -> Iterator[list[Message]]:
        """Yield messages in order until none is pending or the limits are reached."""
        info = self._asked("INFO")
        if self._origin.rewinds or info["delivered"]["stream_seq"] > self.through:
            info = self._rewound(info)
        self._delivered = info["delivered"]["consumer_seq"]
        self._pending = info["num_pending"]
        if (limit := info["config"].get("max_ack_pending", 0)) > 0:
            # The server delivers no more until some of it is acknowledged.
            self._messages_left = min(self._messages_left, limit - info["num_ack_pending"])
        largest = BATCH_BYTES
        while self._pending and self._messages_left > 0 and self._bytes_left > 0:
            before = self._delivered
            yield from self._batch(largest)
            if self._delivered > before:
                largest = BATCH_BYTES
            elif largest:
                largest = 0  # the next message alone is larger
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
        """Return what has arrived; a pull always ends in time, so silence means that its end was lost."""
        try:
            return inbox.read(ANSWER_S)
        except ReplyTimeoutError:
            raise BusError(broken_off(self._subject("MSG.NEXT").decode())) from None

    def _end(self, code: int, description: bytes) -> None:
        """Accept the early end of a batch; raise an error for other statuses."""
        if code == 503:
            raise BusError(unanswered(self._subject("MSG.NEXT").decode()))
        gone = code == 409 and b"MaxBytes" not in description and b"Batch Completed" not in description
        if code not in _ENDS or gone:
            raise BusError(f"the consumer of {self._origin.stream!r}: {description.decode(errors='replace')}")
        if code != 409:
            self._pending = 0

    def _message(self, frame: Frame) -> Message | None:
        """Return a delivered message unless it is in the target already or was delivered before."""
        subject, reply, headers, data = frame
        ack = parse_ack_subject(reply)
        if ack is None or ack.consumer_seq != self._delivered + 1:
            raise BusError("a message was lost in transit")
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
        """Return the consumer's info after it was reset to its ack floor."""
        # It cannot go behind its ack floor, which may be too high for a stream that lost its end.
        floor_seq = info.get("ack_floor", {}).get("stream_seq", 0)
        if durable.can_reset(info) and floor_seq <= self.through:
            return self._asked("RESET")
        if info["config"].get("opt_start_seq") == self.through + 1 and not info["delivered"]["consumer_seq"]:
            return info
        # Older servers: the consumer is re-created. For interest retention a spare one keeps messages
        # meanwhile.
        name, spare = self._origin.durable, self._origin.durable + durable.SPARE
        if self._origin.retention == "interest":
            # A task that ended during this may have left one.
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
