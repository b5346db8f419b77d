"""A pull consumer: messages are delivered to pull requests, as many as requested."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from headwater.delivery.consumer import Consumer
from headwater.delivery.outgoing import CHUNK, OutgoingMessages, Target
from headwater.delivery.pull_queue import DEFAULT_MAX_WAITING, PullQueue, PullStatus, Waiting
from headwater.model import headers as header_block
from headwater.model.consumer import ConsumerConfig, ConsumerInfo, PriorityPolicy
from headwater.wire.pull_request import BadPullRequestError, parse_pull_request

UNHEARD_NS = 2_000_000_000
"""How long a request may wait before a subscriber to its reply subject must be seen."""
LEFT_NS = 250_000_000
"""The same for a subject that had a subscriber before."""
MOST_HEARD = 512
PIN_BYTES = 64
"""The bytes of the pin header, and of the first line of a header block."""


class PullConsumer(Consumer):
    """Serves pull requests in turn."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.queue = PullQueue(self.config)
        self._serving: Waiting | None = None
        """The request that is being served."""
        self._counting: asyncio.Task[None] | None = None
        """Counts the backlog for the requests that wait for it."""
        self._uncounted: list[tuple[bytes, bytes]] = []
        """Requests that wait until the backlog is counted."""
        self._last_asked_ns = self._clock.steady_ns()
        """When the last request arrived; the inactive threshold counts from there."""
        self._heard: dict[bytes, None] = {}
        """The subjects that last had subscribers."""

    def num_waiting(self) -> int:
        """Return how many pull requests with a subscriber wait."""
        self._pass_over_unheard(self._clock.steady_ns())
        return len(self.queue)

    def pull(self, body: bytes, reply: bytes) -> None:
        """Process a pull request."""
        if not reply:
            return
        now_ns = self._clock.steady_ns()
        self._last_asked_ns = now_ns
        try:
            request = parse_pull_request(body)
        except BadPullRequestError as error:
            self._send_status(PullStatus(reply, 400, f"Bad Request - {error}"))
            return
        if not self.backlog.is_known:
            self._later(body, reply)
            return
        refusal = self.queue.add(reply, request, now_ns, len(self.backlog) + self.state.num_queued)
        self._send_statuses(self.queue.take_statuses())
        if refusal is not None:
            self._send_status(refusal)
            return
        if self.is_paused:
            self._send_statuses(self.queue.at_end())
        self.wake()
        self._recorder.arm(self)

    def _later(self, body: bytes, reply: bytes) -> None:
        """Process the request once the backlog is counted."""

        async def count_first() -> None:
            await self.backlog.count()
            self._counting = None
            uncounted, self._uncounted = self._uncounted, []
            for each in uncounted:
                self.pull(*each)

        if len(self._uncounted) >= (self.config.max_waiting or DEFAULT_MAX_WAITING):
            self._send_status(PullStatus(reply, 409, "Exceeded MaxWaiting"))
            return
        self._uncounted.append((body, reply))
        if self._counting is None:
            self._counting = asyncio.create_task(count_first())
            self._counting.add_done_callback(self._report_failure)

    def pull_next(self, body: bytes, reply: bytes) -> None:
        """Process the pull request that came with an ack."""
        self.pull(body.strip(), reply)

    def target(self) -> Target | None:
        """Return the request that is served next."""
        # First of all, since every consumer is asked for every message.
        if not len(self.queue) or self.is_paused or not self._outlet.is_open:
            return None
        now_ns = self._clock.steady_ns()
        while True:
            waiting = self.queue.next(now_ns, len(self.backlog), self.state.num_ack_pending)
            self._send_statuses(self.queue.take_statuses())
            self._serving = waiting
            if waiting is None:
                return None
            if self._is_heard(waiting, now_ns):
                break
            self._pass_over(waiting, now_ns)
        if self.queue.takes_turns:
            self._pass_over_unheard(now_ns)
            return Target(waiting.reply, min(sum(each.messages for each in self.queue), CHUNK))
        # The thresholds of overflow requests are checked before each message.
        alone = len(self.queue) == 1 and self.config.priority_policy is not PriorityPolicy.OVERFLOW
        return Target(waiting.reply, min(waiting.messages, CHUNK) if alone else 1, waiting.size)

    def _is_heard(self, waiting: Waiting, now_ns: int) -> bool:
        """Return whether a request's reply subject has a subscriber, or may be about to have one.

        Requests and interest arrive over two connections, in either order. A reply subject seen before has
        more likely unsubscribed than not yet subscribed.
        """
        if not self._outlet.is_open:
            return True  # unknown: the leaf connection is lost
        if self._outlet.listens(waiting.reply):
            waiting.heard = True
            self._remember(waiting.reply)
            return True
        grace_ns = LEFT_NS if waiting.reply in self._heard else UNHEARD_NS
        return not waiting.heard and now_ns - waiting.asked_ns <= grace_ns

    def _pass_over(self, waiting: Waiting, now_ns: int) -> None:
        """Stop serving a request until its client is back, or permanently if the client never subscribed."""
        if not waiting.heard:
            self.queue.drop(waiting)
            return
        self.queue.set_aside(waiting, now_ns)
        self._consumers.watch_interest(self)
        self._recorder.arm(self)

    def _pass_over_unheard(self, now_ns: int) -> None:
        for waiting in list(self.queue):
            if not self._is_heard(waiting, now_ns):
                self._pass_over(waiting, now_ns)

    def on_interest(self) -> None:
        """Serve the requests again whose clients have returned."""
        back = [waiting for waiting in self.queue.away if self._outlet.listens(waiting.reply)]
        for waiting in back:
            self.queue.bring_back(waiting)
        if not self.queue.away:
            self._consumers.watch_interest(self, wanted=False)
        if back:
            self.wake()
            self._recorder.arm(self)

    def _remember(self, reply: bytes) -> None:
        if reply not in self._heard:
            if len(self._heard) >= MOST_HEARD:
                del self._heard[next(iter(self._heard))]
            self._heard[reply] = None

    def send(self, target: Target, deliveries: OutgoingMessages, size: int) -> None:
        """Send messages to the request that is served, or to each in turn."""
        if not self.queue.takes_turns:
            super().send(target, deliveries, size)
            return
        order = self.queue.rotation(len(deliveries.datas))
        rows: dict[bytes, list[int]] = {}
        for row, waiting in enumerate(order):
            rows.setdefault(waiting.reply, []).append(row)
        for reply, chosen in rows.items():
            self._outlet.deliver(reply, *deliveries.at(chosen))
        # In the order of the last service, so that the longest waiting request is next.
        counts = Counter(order)
        for waiting in reversed(dict.fromkeys(reversed(order))):
            self._send_status(self.queue.served(waiting, counts[waiting], 0, self._clock.steady_ns()))

    def sent(self, target: Target, count: int, size: int) -> None:
        """Record what a request got."""
        waiting = self._serving
        if waiting is not None and waiting.reply == target.subject:
            self._send_status(self.queue.served(waiting, count, size, self._clock.steady_ns()))

    def too_large(self, target: Target) -> None:
        """Close a request for which the next message is too large."""
        if self._serving is not None and self._serving in self.queue:
            self._send_status(self.queue.too_large(self._serving))

    def at_end(self) -> None:
        """Close the requests that do not wait."""
        self._send_statuses(self.queue.at_end())

    @property
    def header_bytes(self) -> int:
        """Return an upper bound of what a delivery adds to the headers."""
        return PIN_BYTES if self.config.priority_policy is PriorityPolicy.PINNED_CLIENT else 0

    def marked(self, headers: list[bytes]) -> list[bytes]:
        """Return the headers with the pin of the client that gets the messages."""
        if self.config.priority_policy is not PriorityPolicy.PINNED_CLIENT or self._serving is None:
            return headers
        pin = self.queue.pin_of(self._serving, self._clock.steady_ns()).encode()
        self._report_pin()
        return [header_block.add(block, b"Nats-Pin-Id", pin) for block in headers]

    def tick(self, now_ns: int) -> int | None:
        """End what has expired, send heartbeats, and report inactivity."""
        if self._closed:
            return None
        due_ns = self.queue.next_deadline()
        self._send_statuses(self.queue.expire(now_ns))
        if not self._pump.is_running and due_ns is not None and due_ns <= now_ns:
            # As nats-server does when a heartbeat or expiry is due: also while max_ack_pending is reached.
            self._send_statuses(self.queue.at_end())
        self._report_pin()
        for reply in self.queue.heartbeats(now_ns):
            self._heartbeat(reply)
        threshold = self.config.inactive_threshold
        if (
            threshold
            and not len(self.queue)
            and not self.queue.away
            and now_ns - self._active_ns() >= threshold
        ):
            self._consumers.abandon(self)
            return None
        return super().tick(now_ns)

    def _report_pin(self) -> None:
        for change in self.queue.pin.take_changes():
            self._consumers.advisories.pinned(self, change)

    def _active_ns(self) -> int:
        return max(self._last_asked_ns, self.state.ack_floor.last_active, self.state.delivered.last_active)

    def _heartbeat(self, reply: bytes) -> None:
        self._outlet.status(reply, self.heartbeat())

    def next_tick(self) -> int | None:
        """Return when the next deadline is."""
        due = [super().next_tick(), self.queue.next_deadline()]
        if self.config.inactive_threshold and not len(self.queue) and not self.queue.away:
            due.append(self._active_ns() + self.config.inactive_threshold)
        return min((d for d in due if d is not None), default=None)

    def leave_waiting(self) -> None:
        """Answer waiting requests that the engine stops."""
        self._send_statuses(self.queue.close(409, "Server Shutdown"))

    def unpin(self, group: str) -> None:
        """Unpin the client of a priority group."""
        if self.queue.unpin(group):
            self._report_pin()
            self.wake()

    def deleted(self) -> None:
        """Answer waiting requests that the consumer was deleted."""
        self._send_statuses(self.queue.close(409, "Consumer Deleted", shows_left=False))

    def reconfigure(self, config: ConsumerConfig) -> None:
        """Continue with another config."""
        self.queue.configure(config)
        super().reconfigure(config)

    async def close(self) -> None:
        """Stop delivering."""
        if self._counting is not None:
            self._counting.cancel()
        await super().close()

    async def info(self) -> ConsumerInfo:
        """Return the consumer's info."""
        info = await super().info()
        if not self.config.priority_groups:
            return info
        return info.with_groups(self.queue.groups)

    def _send_statuses(self, statuses: list[PullStatus]) -> None:
        for status in statuses:
            self._send_status(status)

    def _send_status(self, status: PullStatus | None) -> None:
        if status is None or not status.code:
            return
        lines = []
        if status.left is not None:
            lines = [
                (b"Nats-Pending-Messages", b"%d" % status.left[0]),
                (b"Nats-Pending-Bytes", b"%d" % status.left[1]),
            ]
        block = header_block.build(lines, code=status.code, description=status.text.encode())
        self._outlet.status(status.reply, block)
