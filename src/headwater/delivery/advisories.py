"""Consumer advisories: naks, terms, exhausted deliveries, sampled acks."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec

from headwater.clock import Clock
from headwater.delivery.pin import PinChange
from headwater.model.times import ZERO_TIME, format_time
from headwater.model.unique import unique_id
from headwater.wire.frames import pub

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.delivery.consumer import Consumer

_ADVISORY = "io.nats.jetstream.advisory.v1."
_METRIC = "io.nats.jetstream.metric.v1."


class ConsumerAdvisories:
    """Publishes events about consumers, without waiting for receivers."""

    def __init__(
        self, send: Callable[[bytes], None], clock: Clock, domain: str = "", account: str = "$G"
    ) -> None:
        self._send = send
        """Writes frames to the bus, without waiting."""
        self._clock = clock
        self._domain = domain
        self._account = account

    def action(self, consumer: Consumer, action: str) -> None:
        """Report that a consumer was created (`create`) or removed (`delete`)."""
        name = {"create": "CREATED", "delete": "DELETED"}[action]
        self._advise(consumer, name, "consumer_action", {"action": action})

    def paused(self, consumer: Consumer) -> None:
        """Report that a consumer was paused or resumed."""
        until = consumer.config.pause_until
        shown = ZERO_TIME if until is None else format_time(until)
        fields: dict[str, Any] = {"paused": consumer.is_paused, "pause_until": shown}
        self._advise(consumer, "PAUSE", "consumer_pause", fields)

    def pinned(self, consumer: Consumer, change: PinChange) -> None:
        """Report that a client was pinned, or unpinned and why."""
        fields = {"account": self._account, "group": change.group}
        if change.reason:
            fields["reason"] = change.reason
            self._advise(consumer, "UNPINNED", "consumer_group_unpinned", fields)
        else:
            fields["pinned_id"] = change.id
            self._advise(consumer, "PINNED", "consumer_group_pinned", fields)

    def nak(self, consumer: Consumer, seq: int, consumer_seq: int, count: int) -> None:
        """Report that a message was nak'ed."""
        self._advise(consumer, "MSG_NAKED", "nak", _delivery(seq, consumer_seq, count))

    def terminated(self, consumer: Consumer, seq: int, consumer_seq: int, count: int, reason: str) -> None:
        """Report that a message was terminated."""
        fields = _delivery(seq, consumer_seq, count)
        if reason:
            fields["reason"] = reason
        self._advise(consumer, "MSG_TERMINATED", "terminated", fields)

    def undeliverable(self, consumer: Consumer, seq: int, size: int, max_payload: int) -> None:
        """Report that a message is larger than the server's max_payload; nats-server has no event for it."""
        fields = {"stream_seq": seq, "size": size, "max_payload": max_payload}
        subject = f"$JS.EVENT.ADVISORY.CONSUMER.UNDELIVERABLE.{consumer.stream.name}.{consumer.name}"
        self._publish(subject, "io.headwater.advisory.v1.undeliverable", consumer, fields)

    def max_deliveries(self, consumer: Consumer, seq: int, count: int) -> None:
        """Report that a message reached max_deliver."""
        fields = {"stream_seq": seq, "deliveries": count}
        self._advise(consumer, "MAX_DELIVERIES", "max_deliver", fields)

    def sample(self, consumer: Consumer, seq: int, consumer_seq: int, count: int) -> None:
        """Report how long the ack of a pending message took, at the configured sampling rate."""
        percent = consumer.config.sample_percent
        pending = consumer.state.pending(seq) if percent else None
        if pending is None or random.random() * 100 >= percent:
            return
        fields = _delivery(seq, consumer_seq, count)
        fields["ack_time"] = max(self._clock.steady_ns() - pending.delivered_ns, 0)
        subject = f"$JS.EVENT.METRIC.CONSUMER.ACK.{consumer.stream.name}.{consumer.name}"
        self._publish(subject, _METRIC + "consumer_ack", consumer, fields)

    def _advise(self, consumer: Consumer, name: str, kind: str, fields: dict[str, Any]) -> None:
        subject = f"$JS.EVENT.ADVISORY.CONSUMER.{name}.{consumer.stream.name}.{consumer.name}"
        self._publish(subject, _ADVISORY + kind, consumer, fields)

    def _publish(self, subject: str, kind: str, consumer: Consumer, fields: dict[str, Any]) -> None:
        event = {
            "type": kind,
            "id": unique_id(),
            "timestamp": format_time(self._clock.now_ns()),
            "stream": consumer.stream.name,
            "consumer": consumer.name,
            **fields,
        }
        if self._domain:
            event["domain"] = self._domain
        self._send(pub(subject.encode(), b"", b"", msgspec.json.encode(event)))


def _delivery(seq: int, consumer_seq: int, count: int) -> dict[str, Any]:
    return {"consumer_seq": consumer_seq, "stream_seq": seq, "deliveries": count}
