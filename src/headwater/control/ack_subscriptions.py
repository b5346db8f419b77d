"""The subscriptions to the acks and flow control replies of an account's consumers."""

from __future__ import annotations

from headwater.bus.connection import Connection
from headwater.delivery.acks import Acks
from headwater.delivery.consumer import Consumer
from headwater.delivery.flow_answers import FlowAnswers
from headwater.model.consumer import AckPolicy


class AckSubscriptions:
    """Subscribes while a consumer, or the consumers of a stream, may be answered.

    Each consumer has its own subscriptions, so that nats-server reports no responders at once for an ack to a
    consumer that was removed or has no acks.
    """

    def __init__(self, connection: Connection, *, is_named: bool) -> None:
        """With `is_named`, ack subjects name the domain, and acks in the older form are ignored."""
        self._connection = connection
        self._is_named = is_named
        self._by_consumer: dict[Consumer, list[bytes]] = {}
        self._by_stream: dict[str, bytes] = {}

    def begin(self, consumer: Consumer, acks: Acks) -> None:
        """Have the acks to a consumer arrive, if it has any."""
        if consumer.config.ack_policy not in (AckPolicy.NONE, AckPolicy.FLOW_CONTROL):
            older, newer = consumer.acks.keys
            keys = (newer,) if self._is_named else (newer, older)
            self._by_consumer[consumer] = [self._connection.subscribe(key + b".>", acks) for key in keys]

    def end(self, consumer: Consumer) -> None:
        """Unsubscribe from the acks to a consumer."""
        for sid in self._by_consumer.pop(consumer, ()):
            self._connection.unsubscribe(sid)

    def begin_flow(self, stream: str, acks: Acks) -> None:
        """Have the flow control replies to a stream's consumers arrive."""
        subject = f"$JS.FC.{stream}.>".encode()
        self._by_stream[stream] = self._connection.subscribe(subject, FlowAnswers(acks))

    def end_flow(self, stream: str) -> None:
        """Unsubscribe from the flow control replies to a stream's consumers."""
        sid = self._by_stream.pop(stream, None)
        if sid is not None:
            self._connection.unsubscribe(sid)
