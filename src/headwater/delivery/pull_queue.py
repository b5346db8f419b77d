"""The pull requests that wait at a consumer: which is served next, and which status each gets at its end.

Pure: the caller passes times in nanoseconds, and sends the returned statuses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headwater.delivery.pin import Pin
from headwater.model.consumer import ConsumerConfig, PriorityGroupState, PriorityPolicy, PullRequest
from headwater.model.times import format_duration

DEFAULT_MAX_WAITING = 512
AWAY_NS = 2_000_000_000
"""How long a request without a subscriber is kept: a client that reconnects does not ask again."""
_LAST_PRIORITY = 2**31 - 1


class PullStatus(NamedTuple):
    """A status for a pull request; code 0 means that none is sent."""

    reply: bytes
    code: int
    text: str
    left: tuple[int, int] | None = None
    """Messages and bytes that the request still wanted, if they are reported."""


class Waiting:
    """One request: how much it still wants, and until when."""

    __slots__ = (
        "asked_ns",
        "away_ns",
        "beat_ns",
        "expires_ns",
        "heard",
        "left",
        "pin_id",
        "reply",
        "request",
        "served",
        "size",
    )

    def __init__(self, reply: bytes, request: PullRequest, now_ns: int) -> None:
        self.reply = reply
        self.request = request
        self.left = request.batch
        """How many messages it still wants."""
        self.size = request.max_bytes if request.max_bytes > 0 else None
        """How many bytes it still accepts; None without a limit."""
        self.served = 0
        self.asked_ns = now_ns
        self.expires_ns = now_ns + request.expires if request.expires else None
        self.beat_ns = now_ns
        """When it last got a message or a heartbeat."""
        self.pin_id = request.id
        self.heard = False
        """Whether a subscriber to its reply subject was seen."""
        self.away_ns = 0
        """Since when it has no subscriber."""

    @property
    def messages(self) -> int:
        """Return how many messages this request may get; a request for zero gets one, too."""
        return max(self.left, 1)

    @property
    def priority(self) -> int:
        """Return the priority among requests, lower first; requests without one come last."""
        return self.request.priority if self.request.formal else _LAST_PRIORITY

    def is_over(self, now_ns: int) -> bool:
        """Return whether it has expired."""
        return self.expires_ns is not None and self.expires_ns <= now_ns

    def ended(self, code: int, text: str, *, shows_left: bool = True) -> PullStatus:
        """Return the status that closes this request."""
        return PullStatus(self.reply, code, text, (self.left, self.size or 0) if shows_left else None)


class PullQueue:
    """Requests in the order in which they are served: one message each, in turn."""

    def __init__(self, config: ConsumerConfig) -> None:
        self._waiting: deque[Waiting] = deque()
        """In the order in which they are served."""
        self._away: list[Waiting] = []
        """Requests without a subscriber, whose client may be reconnecting."""
        self._due: list[PullStatus] = []
        """Statuses of requests that were closed while another was searched."""
        self.pin = Pin()
        self.configure(config)

    def configure(self, config: ConsumerConfig) -> None:
        """Continue with another config."""
        self._config = config
        self._max_waiting = config.max_waiting or DEFAULT_MAX_WAITING

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._waiting)

    @property
    def away(self) -> Sequence[Waiting]:
        """Return the requests whose clients have no subscription at the moment."""
        return self._away

    @property
    def wanted(self) -> int:
        """Return how many messages all requests together still want."""
        return sum(waiting.left for waiting in self._waiting)

    @property
    def groups(self) -> tuple[PriorityGroupState, ...]:
        """Return the state of the first priority group; one pin is for all groups."""
        groups = self._config.priority_groups[:1]
        return tuple(PriorityGroupState(group, self.pin.id, self.pin.pinned_ns) for group in groups)

    def add(self, reply: bytes, request: PullRequest, now_ns: int, undelivered: int) -> PullStatus | None:
        """Add a request; return why it is refused, or None. `undelivered` includes redeliveries."""
        refusal = self._over_caps(reply, request) or self._out_of_place(reply, request, now_ns)
        if refusal is not None:
            return refusal
        if request.no_wait:
            if not undelivered and not request.expires:
                return PullStatus(reply, 404, "No Messages")
            if 0 < undelivered < self.wanted:
                return PullStatus(reply, 408, "Requests Pending")
        if len(self._waiting) >= self._max_waiting:
            self._due += self.expire(now_ns)
        if len(self._waiting) >= self._max_waiting:
            # A client that expects heartbeats misses them and asks again later. An answer would make it ask
            # at once.
            return PullStatus(reply, 0 if request.idle_heartbeat > 0 else 409, "Exceeded MaxWaiting")
        self._insert(Waiting(reply, request, now_ns))
        return None

    def _over_caps(self, reply: bytes, request: PullRequest) -> PullStatus | None:
        config = self._config
        if 0 < config.max_batch < request.batch:
            return PullStatus(reply, 409, f"Exceeded MaxRequestBatch of {config.max_batch}")
        if 0 < config.max_expires < request.expires:
            return PullStatus(
                reply, 409, f"Exceeded MaxRequestExpires of {format_duration(config.max_expires)}"
            )
        if 0 < config.max_bytes < request.max_bytes:
            return PullStatus(reply, 409, f"Exceeded MaxRequestMaxBytes of {config.max_bytes}")
        return None

    def _out_of_place(self, reply: bytes, request: PullRequest, now_ns: int) -> PullStatus | None:
        """Return what is wrong with a request's priority group; one with only a number has none."""
        policy = self._config.priority_policy
        if not request.formal:
            return None
        thresholds = request.min_pending or request.min_ack_pending
        if thresholds and policy is not PriorityPolicy.OVERFLOW:
            return PullStatus(reply, 400, "Bad Request - Not a Overflow Priority consumer")
        if request.id and policy is not PriorityPolicy.PINNED_CLIENT:
            return PullStatus(reply, 400, "Bad Request - Not a Pinned Client Priority consumer")
        if not 0 <= request.priority <= 9:
            return PullStatus(reply, 400, "Bad Request - Priority must be between 0 and 9")
        if policy is PriorityPolicy.NONE:
            return None
        if not request.group:
            return PullStatus(reply, 400, "Bad Request - Priority Group missing")
        if request.group not in self._config.priority_groups:
            return PullStatus(reply, 400, "Bad Request - Invalid Priority Group")
        if self.pin.id and request.id == self.pin.id:
            self.pin.heard(now_ns)
        elif self.pin.id and request.id:
            return PullStatus(reply, 423, "Nats-Pin-Id mismatch")
        return None

    def _insert(self, waiting: Waiting) -> None:
        """Insert a request at the end, or at the end of those with its priority."""
        index = len(self._waiting)
        if self._config.priority_policy is PriorityPolicy.PRIORITIZED:
            while index and self._waiting[index - 1].priority > waiting.priority:
                index -= 1
        self._waiting.insert(index, waiting)

    def next(self, now_ns: int, undelivered: int, unacknowledged: int) -> Waiting | None:
        """Return the request that gets the next message, or None if none may.

        Requests that are found to have expired are closed; `take_statuses` returns their statuses.
        """
        queue = self._waiting
        while queue and queue[0].is_over(now_ns):
            self._close(queue[0], 408, "Request Timeout")
        if not queue or self._config.priority_policy in (PriorityPolicy.NONE, PriorityPolicy.PRIORITIZED):
            return queue[0] if queue else None
        for waiting in list(queue):
            if self._may_be_served(waiting, undelivered, unacknowledged):
                return waiting
        return None

    @property
    def takes_turns(self) -> bool:
        """Return whether several requests wait that get one message each in turn."""
        plain = self._config.priority_policy is PriorityPolicy.NONE and len(self._waiting) > 1
        return plain and all(waiting.size is None for waiting in self._waiting)

    def rotation(self, count: int) -> list[Waiting]:
        """Return the requests that get the next messages if they take turns; all are still wanted."""
        order: list[Waiting] = []
        turn = [(waiting, waiting.messages) for waiting in self._waiting]
        while turn and len(order) < count:
            order += [waiting for waiting, _ in turn]
            turn = [(waiting, left - 1) for waiting, left in turn if left > 1]
        return order[:count]

    def _may_be_served(self, waiting: Waiting, undelivered: int, unacknowledged: int) -> bool:
        if self._config.priority_policy is PriorityPolicy.PINNED_CLIENT:
            if waiting.pin_id and waiting.pin_id != self.pin.id:
                self._close(waiting, 423, "Nats-Wrong-Pin-Id")
                return False
            return waiting.pin_id == self.pin.id
        return _overflows(waiting.request, undelivered, unacknowledged)

    def pin_of(self, waiting: Waiting, now_ns: int) -> str:
        """Return the pin that messages for this request have; a client of a group without one is pinned."""
        if not self.pin.id and waiting.request.group:
            waiting.pin_id = self.pin.assign(waiting.request.group, now_ns)
        return self.pin.id

    def unpin(self, group: str) -> bool:
        """Unpin the client; return whether there was one."""
        return self.pin.release("admin")

    def served(self, waiting: Waiting, count: int, size: int, now_ns: int) -> PullStatus | None:
        """Record that a request got messages; return its status if that was all."""
        waiting.served += count
        waiting.left -= count
        waiting.beat_ns = now_ns
        if waiting.size is not None:
            waiting.size = max(waiting.size - size, 0)
        self._waiting.remove(waiting)
        if waiting.left <= 0:
            return waiting.ended(409, "Batch Completed") if waiting.size else None
        if waiting.size != 0:
            self._insert(waiting)
        return None

    def too_large(self, waiting: Waiting) -> PullStatus:
        """Close a request for which the next message is too large."""
        self._waiting.remove(waiting)
        return waiting.ended(409, "Message Size Exceeds MaxBytes")

    def at_end(self) -> list[PullStatus]:
        """Close the requests that do not wait for future messages."""
        done = [w for w in self._waiting if w.request.no_wait and (w.served or w.expires_ns is None)]
        for waiting in done:
            self._waiting.remove(waiting)
        return [waiting.ended(404, "No Messages", shows_left=False) for waiting in done]

    def expire(self, now_ns: int) -> list[PullStatus]:
        """Close the expired requests, and unpin a client that was silent for too long."""
        over = [waiting for waiting in self._waiting if waiting.is_over(now_ns)]
        for waiting in over:
            self._waiting.remove(waiting)
        self._away = [w for w in self._away if not w.is_over(now_ns) and now_ns - w.away_ns < AWAY_NS]
        if (deadline := self.pin.deadline(self._config.priority_timeout)) and deadline <= now_ns:
            self.pin.release("timeout")
        return [waiting.ended(408, "Request Timeout") for waiting in over]

    def take_statuses(self) -> list[PullStatus]:
        """Return and remove the statuses of requests that were closed by `next`."""
        due, self._due = self._due, []
        return due

    def drop(self, waiting: Waiting) -> None:
        """Remove a request without a status: it has no subscriber."""
        self._waiting.remove(waiting)

    def set_aside(self, waiting: Waiting, now_ns: int) -> None:
        """Stop serving a request until its client subscribes again; otherwise it is soon removed."""
        self._waiting.remove(waiting)
        waiting.away_ns = now_ns
        if len(self._away) < self._max_waiting:
            self._away.append(waiting)

    def bring_back(self, waiting: Waiting) -> None:
        """Serve a request again, before those that arrived after it."""
        self._away.remove(waiting)
        if self._config.priority_policy is PriorityPolicy.PRIORITIZED:
            self._insert(waiting)
            return
        index = next((i for i, w in enumerate(self._waiting) if w.asked_ns >= waiting.asked_ns), None)
        self._waiting.insert(len(self._waiting) if index is None else index, waiting)

    def heartbeats(self, now_ns: int) -> list[bytes]:
        """Return the requests that are due a heartbeat, and count it as sent."""
        due = []
        for waiting in self._waiting:
            beat = waiting.request.idle_heartbeat
            if beat > 0 and now_ns - waiting.beat_ns >= beat:
                waiting.beat_ns = now_ns
                due.append(waiting.reply)
        return due

    def next_deadline(self) -> int | None:
        """Return when a request expires or is due a heartbeat, or when the pin expires."""
        due = [w.expires_ns for w in self._waiting if w.expires_ns is not None]
        due += [w.beat_ns + w.request.idle_heartbeat for w in self._waiting if w.request.idle_heartbeat > 0]
        due += [w.away_ns + AWAY_NS for w in self._away]
        if pinned := self.pin.deadline(self._config.priority_timeout):
            due.append(pinned)
        return min(due, default=None)

    def close(self, code: int, text: str, *, shows_left: bool = True) -> list[PullStatus]:
        """Close every request."""
        waiting, self._waiting = [*self._waiting, *self._away], deque()
        self._away.clear()
        return [each.ended(code, text, shows_left=shows_left) for each in waiting]

    def _close(self, waiting: Waiting, code: int, text: str) -> None:
        self._waiting.remove(waiting)
        self._due.append(waiting.ended(code, text))


def _overflows(request: PullRequest, undelivered: int, unacknowledged: int) -> bool:
    """Return whether a request is served: always without thresholds, else if any of them is reached."""
    if request.min_pending <= 0 and request.min_ack_pending <= 0:
        return True
    if 0 < request.min_pending <= undelivered:
        return True
    return 0 < request.min_ack_pending <= unacknowledged
