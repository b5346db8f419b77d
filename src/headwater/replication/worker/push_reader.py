"""Reads an origin through a hidden push consumer, such as nats-server creates for its own sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headwater.errors import BusError
from headwater.model import headers as header_block
from headwater.model.columns import columns_of
from headwater.model.message import Message
from headwater.model.times import SECOND
from headwater.replication.exports import unanswered_flow, undelivered
from headwater.replication.hidden_consumer import hidden_consumer
from headwater.replication.work import NatsOrigin
from headwater.replication.worker.bulk_deliveries import BulkDeliveries, DeliveredMessages
from headwater.replication.worker.client import BlockingClient, ReplyTimeoutError, TaskInbox, UnsuitableError
from headwater.table.arrow_tables import rows_of
from headwater.table.rows import Rows
from headwater.wire.ack_subject import parse_ack_subject
from headwater.wire.frames import Frame

SILENCE_S = 10.0
"""A consumer that neither delivers nor sends a heartbeat for this long is considered dead."""
FIRST_WORD_S = 3.0
"""How long to wait for the first delivery if there is another way to read."""
UNBOUND_S = 0.5
"""How long to wait if the consumer reported no interest, which may not have reached it yet."""


class PushReader:
    """Reads what the origin pushes; lost messages are detected by the delivery sequence numbers."""

    def __init__(
        self, client: BlockingClient, origin: NatsOrigin, filters: tuple[str, ...], *, is_only: bool = True
    ) -> None:
        """Create a reader; unless it is the only one, it gives up early if deliveries do not arrive."""
        self._client = client
        self._is_only = is_only
        self._api = origin.api_prefix
        self._stream = origin.stream
        self._filters = filters
        self._deliver = origin.deliver
        self._inbox: TaskInbox | None = None
        """Where the consumer delivers to."""
        self._unanswered: TaskInbox | None = None
        """Receives no-responders for flow control replies, which means that their export is missing."""
        self._name = ""
        """The consumer's name."""
        self._delivered = 0
        """The consumer sequence of the last delivery."""
        self._pending = 0
        """How many messages the consumer had left after the last delivery."""
        self._heard = False
        """Whether anything has arrived."""
        self._patience_s = SILENCE_S
        """How long to wait for the next delivery."""

    def read(self, start_seq: int, stop_seq: int) -> Iterator[Rows]:
        """Yield messages in order until none is pending."""
        self._inbox = inbox = self._client.open(self._deliver)
        made = self._create(inbox.subject.decode(), start_seq)
        self._name = made["name"]
        self._pending = int(made.get("num_pending") or 0)
        if not self._is_only:
            self._patience_s = FIRST_WORD_S if made.get("push_bound") else UNBOUND_S
        bulk = BulkDeliveries(inbox.sid)
        while self._pending:
            messages: list[Message] = []
            for arrived in self._arrived(inbox, bulk):
                if isinstance(arrived, DeliveredMessages):
                    if messages:
                        yield rows_of(columns_of(messages))
                        messages = []
                    self._count(arrived.first, arrived.last, arrived.pending)
                    yield arrived.rows
                elif arrived[0] == inbox.subject:
                    self._control(arrived)
                else:
                    messages.append(self._message(arrived))
                    if not bulk.is_learned:
                        bulk.learn(arrived[1])
            if messages:
                yield rows_of(columns_of(messages))

    def _arrived(self, inbox: TaskInbox, bulk: BulkDeliveries) -> list[DeliveredMessages | Frame]:
        """Return what has arrived; a consumer that never sends anything is cut off from us."""
        try:
            arrived = inbox.read_bulk(bulk, self._patience_s)
        except ReplyTimeoutError:
            if self._heard:
                raise
            raise UnsuitableError(undelivered(self._deliver)) from None
        self._heard = True
        self._patience_s = SILENCE_S
        return arrived

    def _count(self, first: int, last: int, pending: int) -> None:
        """Record deliveries, none of which may be missing."""
        if first != self._delivered + 1:
            raise BusError("a message was lost in transit")
        self._delivered = last
        self._pending = pending

    def close(self) -> None:
        """Remove the consumer; if that fails, the origin removes it when it is inactive."""
        if self._inbox is None:
            return
        if self._heard and self._pending:
            # It keeps sending until it is removed, and the answer would arrive after all that.
            self._client.renew()
        try:
            self._client.shut(self._inbox)
            if self._name:
                self._client.request(f"{self._api}.CONSUMER.DELETE.{self._stream}.{self._name}")
        except (BusError, OSError):
            pass

    def _create(self, deliver_subject: str, start_seq: int) -> dict[str, Any]:
        config = hidden_consumer(
            deliver_subject,
            self._filters,
            deliver_policy="by_start_sequence",
            opt_start_seq=start_seq,
            ack_wait=22 * 3600 * SECOND,
            flow_control=True,
        )
        asked = {"stream_name": self._stream, "config": config}
        try:
            answer = self._client.request(f"{self._api}.CONSUMER.CREATE.{self._stream}", asked)
        except BusError as failure:
            raise UnsuitableError(failure.problem) from None
        if error := answer.get("error"):
            raise UnsuitableError(
                f"stream {self._stream!r} cannot be read with a consumer: {error.get('description')}"
            )
        return answer

    def _message(self, frame: Frame) -> Message:
        """Return a delivered message."""
        subject, reply, headers, data = frame
        ack = parse_ack_subject(reply)
        if ack is None:
            raise BusError(f"a message has the reply {reply!r}, which is not an ack subject")
        self._count(ack.consumer_seq, ack.consumer_seq, ack.pending)
        return Message(ack.stream_seq, ack.ts, subject, headers, data)

    def _control(self, frame: Frame) -> None:
        """Answer a flow control request, and check the delivery count of a heartbeat."""
        _, reply, headers, _ = frame
        status = header_block.status(headers)
        if status is None or status.code != 100:
            raise BusError(f"the consumer ended: {headers[:100]!r}")
        if reply:
            self._answer(reply)
            return
        if stalled := header_block.get(headers, b"Nats-Consumer-Stalled"):
            self._answer(stalled)
        delivered = header_block.get(headers, b"Nats-Last-Consumer")
        if delivered is not None and int(delivered) != self._delivered:
            raise BusError("messages were lost in transit")

    def _answer(self, subject: bytes) -> None:
        """Answer flow control, with a reply subject on which the server reports if no responder exists."""
        if self._unanswered is None:
            self._unanswered = self._client.open()
        if sum(frame[2].startswith(b"NATS/1.0 503") for frame in self._unanswered.items) > 1:
            raise UnsuitableError(unanswered_flow(subject.decode(errors="replace")))
        self._client.publish(subject, reply=self._unanswered.subject)
