"""A push consumer: messages are sent to its deliver subject for as long as it has subscribers."""

from __future__ import annotations

from typing import Any

from headwater.delivery.consumer import Consumer
from headwater.delivery.flow_control import FlowControl
from headwater.delivery.outgoing import CHUNK, Target
from headwater.model import headers as header_block
from headwater.model.consumer import AckPolicy, ConsumerConfig

_REQUEST = header_block.build(code=100, description=b"FlowControl Request")
FOREVER = 2**63 - 2


class PushConsumer(Consumer):
    """Delivers to one subject, with heartbeats, and with a flow control window if it is enabled."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._subject = self.config.deliver_subject.encode()
        self._queue = self.config.deliver_group.encode()
        """The queue group that shares the deliver subject; empty without one."""
        self._flow = FlowControl(self.stream.name, self.name) if self.config.flow_control else None
        """None without flow control."""
        self._bound = self._outlet.listens(self._subject, self._queue)
        """Whether the deliver subject has a subscriber."""
        now_ns = self._clock.steady_ns()
        self._last_sent_ns = now_ns
        """When a message or heartbeat was last sent."""
        self._unbound_since_ns = now_ns
        """Since when there is no subscriber; counts only while not bound."""

    def is_bound(self) -> bool:
        """Return whether the deliver subject has a subscriber."""
        return self._bound

    def on_interest(self) -> None:
        """Begin when the first subscriber arrives, stop when the last one leaves."""
        bound = self._outlet.listens(self._subject, self._queue)
        if bound == self._bound:
            return
        self._bound = bound
        now_ns = self._clock.steady_ns()
        if bound:
            self._last_sent_ns = now_ns
            self.wake()
        else:
            self._unbound_since_ns = now_ns
            if self._flow is not None:
                self._flow.reset()
        self._recorder.arm(self)

    def target(self) -> Target | None:
        """Return the deliver subject while it accepts messages."""
        if not self._bound or self.is_paused or not self._outlet.is_open:
            return None
        if self._flow is not None and not self._flow.is_open:
            return None
        return Target(self._subject, CHUNK)

    def sent(self, target: Target, count: int, size: int) -> None:
        """Count what is in flight, and send a flow control request in time."""
        self._last_sent_ns = self._clock.steady_ns()
        if self._flow is None:
            return
        subject = self._flow.sent(size)
        if subject is None and self._acks_by_flow and self.state.room == 0 and not self._flow.outstanding:
            subject = self._flow.ask()
        if subject is not None:
            self._outlet.status(self._subject, _REQUEST, subject)

    @property
    def _acks_by_flow(self) -> bool:
        return self.config.ack_policy is AckPolicy.FLOW_CONTROL

    def flow_answered(self, subject: bytes, headers: bytes) -> bool:
        """Process a flow control reply; return whether it settled messages."""
        if self._flow is None or not self._flow.answered(subject):
            return False
        settled = False
        if seq := self.confirmed_seq(headers):
            consumer_seq = _number(header_block.get(headers, b"Nats-Last-Consumer"))
            settled = self.state.ack(seq, consumer_seq, self._clock.steady_ns())
        self.wake()
        return settled

    def confirmed_seq(self, headers: bytes) -> int:
        """Return the sequence up to which a flow control reply settles messages, or 0."""
        return _number(header_block.get(headers, b"Nats-Last-Stream")) if self._acks_by_flow else 0

    def tick(self, now_ns: int) -> int | None:
        """Send the heartbeat when it is due, and report inactivity."""
        if self._closed:
            return None
        beat = self.config.idle_heartbeat
        if beat and self._bound and now_ns - self._last_sent_ns >= beat:
            self._heartbeat()
            self._last_sent_ns = now_ns
        if self._is_abandoned(now_ns):
            self._consumers.abandon(self)
            return None
        return super().tick(now_ns)

    def _heartbeat(self) -> None:
        flow = self._flow
        stalled = (
            [(b"Nats-Consumer-Stalled", flow.outstanding)] if flow is not None and flow.outstanding else ()
        )
        self._outlet.status(self._subject, self.heartbeat(stalled))
        if flow is not None and self._acks_by_flow and self.state.num_ack_pending and not flow.outstanding:
            self._outlet.status(self._subject, _REQUEST, flow.ask())

    def _is_abandoned(self, now_ns: int) -> bool:
        threshold = self.config.inactive_threshold
        return bool(threshold) and not self._bound and now_ns - self._unbound_since_ns >= threshold

    def next_tick(self) -> int | None:
        """Return when the next deadline is."""
        due = super().next_tick()
        if self._bound and self.config.idle_heartbeat:
            beat = self._last_sent_ns + self.config.idle_heartbeat
            due = beat if due is None else min(due, beat)
        if not self._bound and self.config.inactive_threshold:
            leave = self._unbound_since_ns + self.config.inactive_threshold
            due = leave if due is None else min(due, leave)
        return due

    def reset(self, seq: int) -> int:
        """Begin again at a sequence, or after the ack floor, with nothing in flight; return where."""
        if self._flow is not None:
            self._flow.reset()
        return super().reset(seq)

    def reconfigure(self, config: ConsumerConfig) -> None:
        """Continue with another config, possibly with another subject."""
        if config.deliver_subject != self.config.deliver_subject and self._flow is not None:
            self._flow.reset()
        moved = config.deliver_subject != self.config.deliver_subject
        self._subject = config.deliver_subject.encode()
        self._queue = config.deliver_group.encode()
        super().reconfigure(config)
        self.on_interest()
        if moved and self.state.expire(FOREVER):
            # Subscribers of the new subject have seen none of the earlier deliveries.
            self._recorder.changed(self)
            self.wake()


def _number(value: bytes | None) -> int:
    """Return a sequence, 0 if it is none: a client wrote it."""
    return int(value) if value is not None and value.isdigit() and len(value) < 20 else 0
