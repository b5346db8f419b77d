"""The pull requests that wait at a consumer: who is served next, and what each is told in the end.

Pure: times are nanoseconds that the caller gives, answers are values that the caller sends.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from headwater.model.consumer import ConsumerConfig, PriorityGroupState, PriorityPolicy, PullRequest
from headwater.model.times import format_duration

DEFAULT_MAX_WAITING = 512
UNHEARD_NS = 2_000_000_000
"""How long a request may wait before somebody must be seen listening for its messages."""


class Status(NamedTuple):
    """What a client that asked is told besides messages."""

    reply: bytes
    code: int
    text: str
    left: tuple[int, int] | None = None
    """Messages and bytes that the request still wanted, where that is told."""


class Waiting:
    """One request: what it still wants, and until when."""

    __slots__ = ("asked_ns", "beat_ns", "expires_ns", "messages", "reply", "request", "served", "size")

    def __init__(self, reply: bytes, request: PullRequest, now_ns: int) -> None:
        self.reply = reply
        self.request = request
        self.messages = max(request.batch, 1)
        self.size = request.max_bytes or None
        self.served = 0
        self.asked_ns = now_ns
        self.expires_ns = now_ns + request.expires if request.expires > 0 else None
        self.beat_ns = now_ns

    def ended(self, code: int, text: str, *, tell_left: bool = True) -> Status:
        """Return the status that closes this request."""
        return Status(self.reply, code, text, (self.messages, self.size or 0) if tell_left else None)


class Pin(NamedTuple):
    """Which client a priority group is pinned to, and since when it was last heard of."""

    id: str
    pinned_ns: int
    heard_ns: int


class PullQueue:
    """Requests in the order they are served: one message each, in turn."""

    def __init__(self, config: ConsumerConfig) -> None:
        self._waiting: deque[Waiting] = deque()
        self._pins: dict[str, Pin] = {}
        self.configure(config)

    def configure(self, config: ConsumerConfig) -> None:
        """Go on with another config."""
        self._config = config
        self._max_waiting = config.max_waiting or DEFAULT_MAX_WAITING

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._waiting)

    @property
    def wanted(self) -> int:
        """Return how many messages all requests together still want."""
        return sum(waiting.messages for waiting in self._waiting)

    def add(self, reply: bytes, request: PullRequest, now_ns: int, undelivered: int) -> Status | None:
        """Let a request wait; return why it may not."""
        refusal = self._over_caps(reply, request) or self._wrong_group(reply, request)
        if refusal is not None:
            return refusal
        if request.no_wait:
            if not undelivered and not request.expires:
                return Status(reply, 404, "No Messages")
            if undelivered and self._waiting and undelivered < self.wanted:
                return Status(reply, 408, "Requests Pending")
        if len(self._waiting) >= self._max_waiting:
            silent = request.idle_heartbeat > 0
            return Status(reply, 0 if silent else 409, "Exceeded MaxWaiting")
        if request.id and self._config.priority_policy is PriorityPolicy.PINNED_CLIENT:
            pin = self._pins.get(request.group)
            if pin is not None and pin.id == request.id:
                self._pins[request.group] = pin._replace(heard_ns=now_ns)
        self._waiting.append(Waiting(reply, request, now_ns))
        return None

    def _over_caps(self, reply: bytes, request: PullRequest) -> Status | None:
        config = self._config
        if config.max_batch > 0 and request.batch > config.max_batch:
            return Status(reply, 409, f"Exceeded MaxRequestBatch of {config.max_batch}")
        if config.max_expires > 0 and request.expires > config.max_expires:
            return Status(reply, 409, f"Exceeded MaxRequestExpires of {format_duration(config.max_expires)}")
        if config.max_bytes > 0 and request.max_bytes > config.max_bytes:
            return Status(reply, 409, f"Exceeded MaxRequestMaxBytes of {config.max_bytes}")
        return None

    def _wrong_group(self, reply: bytes, request: PullRequest) -> Status | None:
        groups = self._config.priority_groups
        if not groups:
            if request.group:
                return Status(reply, 400, "Bad Request - Priority group not supported by this consumer")
            return None
        if not request.group:
            return Status(reply, 400, "Bad Request - Priority Group missing")
        if request.group not in groups:
            return Status(reply, 400, "Bad Request - Invalid Priority Group")
        pin = self._pins.get(request.group)
        if request.id and (pin is None or pin.id != request.id):
            return Status(reply, 423, "Nats-Wrong-Pin-Id")
        return None

    def next(self, now_ns: int, undelivered: int, unacknowledged: int) -> Waiting | None:
        """Return the request that gets the next message, or None while none may."""
        policy = self._config.priority_policy
        if policy is PriorityPolicy.NONE or not self._config.priority_groups:
            return self._waiting[0] if self._waiting else None
        if policy is PriorityPolicy.PINNED_CLIENT:
            return self._pinned(now_ns)
        if policy is PriorityPolicy.PRIORITIZED:
            return min(self._waiting, key=lambda waiting: waiting.request.priority, default=None)
        for waiting in self._waiting:
            if _overflows(waiting.request, undelivered, unacknowledged):
                return waiting
        return None

    def _pinned(self, now_ns: int) -> Waiting | None:
        for waiting in self._waiting:
            group = waiting.request.group
            pin = self._pins.get(group)
            if pin is None:
                if waiting.request.id:
                    continue
                self._pins[group] = Pin(secrets.token_urlsafe(12), now_ns, now_ns)
                return waiting
            if waiting.request.id == pin.id or (waiting.asked_ns <= pin.pinned_ns and not waiting.request.id):
                return waiting
        return None

    def pin_of(self, waiting: Waiting) -> str:
        """Return the pin that messages for this request carry, if any."""
        pin = self._pins.get(waiting.request.group)
        return pin.id if pin is not None else ""

    def unpin(self, group: str) -> bool:
        """Let another client be pinned; return whether one was."""
        return self._pins.pop(group, None) is not None

    @property
    def groups(self) -> tuple[PriorityGroupState, ...]:
        """Return how the priority groups stand."""
        states = []
        for group in self._config.priority_groups:
            pin = self._pins.get(group)
            states.append(
                PriorityGroupState(group, pin.id, pin.pinned_ns) if pin else PriorityGroupState(group)
            )
        return tuple(states)

    def served(self, waiting: Waiting, count: int, size: int, now_ns: int) -> Status | None:
        """Take note that a request got messages; return what it is told if that was all."""
        waiting.served += count
        waiting.messages -= count
        waiting.beat_ns = now_ns
        if waiting.size is not None:
            waiting.size = max(waiting.size - size, 0)
        self._waiting.remove(waiting)
        if waiting.messages <= 0:
            if waiting.size:
                return waiting.ended(409, "Batch Completed")
            return None
        if waiting.size == 0:
            return waiting.ended(409, "Message Size Exceeds MaxBytes")
        self._waiting.append(waiting)
        return None

    def too_large(self, waiting: Waiting) -> Status:
        """Close a request for which the next message is too large."""
        self._waiting.remove(waiting)
        return waiting.ended(409, "Message Size Exceeds MaxBytes")

    def at_end(self) -> list[Status]:
        """Close the requests that will not wait for messages still to come."""
        done = [w for w in self._waiting if w.request.no_wait and (w.served or w.expires_ns is None)]
        for waiting in done:
            self._waiting.remove(waiting)
        return [waiting.ended(404, "No Messages", tell_left=False) for waiting in done]

    def expire(self, now_ns: int) -> list[Status]:
        """Close the requests whose time is over."""
        over = [w for w in self._waiting if w.expires_ns is not None and w.expires_ns <= now_ns]
        for waiting in over:
            self._waiting.remove(waiting)
        self._expire_pins(now_ns)
        return [waiting.ended(408, "Request Timeout") for waiting in over]

    def _expire_pins(self, now_ns: int) -> None:
        timeout = self._config.priority_timeout
        if timeout <= 0:
            return
        held = {waiting.request.id for waiting in self._waiting}
        for group, pin in list(self._pins.items()):
            if pin.id not in held and now_ns - pin.heard_ns >= timeout:
                del self._pins[group]

    def drop(self, waiting: Waiting) -> None:
        """Forget a request without a word: nobody listens for its messages."""
        self._waiting.remove(waiting)

    def heartbeats(self, now_ns: int) -> list[bytes]:
        """Return who is due a heartbeat, and count it as sent."""
        due = []
        for waiting in self._waiting:
            beat = waiting.request.idle_heartbeat
            if beat > 0 and now_ns - waiting.beat_ns >= beat:
                waiting.beat_ns = now_ns
                due.append(waiting.reply)
        return due

    def next_deadline(self) -> int | None:
        """Return when a request expires or is due a heartbeat, or when it must be heard of."""
        due = [w.expires_ns for w in self._waiting if w.expires_ns is not None]
        due += [w.beat_ns + w.request.idle_heartbeat for w in self._waiting if w.request.idle_heartbeat > 0]
        if self._config.priority_timeout > 0:
            due += [pin.heard_ns + self._config.priority_timeout for pin in self._pins.values()]
        return min(due, default=None)

    def close(self, code: int, text: str) -> list[Status]:
        """Close every request."""
        waiting, self._waiting = list(self._waiting), deque()
        return [each.ended(code, text) for each in waiting]


def _overflows(request: PullRequest, undelivered: int, unacknowledged: int) -> bool:
    if not request.min_pending and not request.min_ack_pending:
        return True
    if request.min_pending and undelivered >= request.min_pending:
        return True
    return bool(request.min_ack_pending) and unacknowledged >= request.min_ack_pending
