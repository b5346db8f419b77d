"""A pull consumer: messages go to those who ask, as many as they ask for."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from headwater.delivery.consumer import CHUNK, Consumer, OutgoingMessages, Target
from headwater.delivery.pull_queue import DEFAULT_MAX_WAITING, PullQueue, PullStatus, Waiting
from headwater.model import headers as header_block
from headwater.model.consumer import ConsumerConfig, ConsumerInfo, PriorityPolicy
from headwater.wire.pull_request import BadPullRequestError, parse_pull_request

UNHEARD_NS = 2_000_000_000
"""How long a request may wait before somebody must be seen listening for its messages."""
LEFT_NS = 250_000_000
"""The same for a subject on which somebody was seen listening earlier."""
MOST_HEARD = 512
PIN_BYTES = 64
"""The header with a pin, and the first line of a block that had none."""


class PullConsumer(Consumer):
    """Serves pull requests in turn."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.queue = PullQueue(self.config)
        self._serving: Waiting | None = None
        self._counting: asyncio.Task[None] | None = None
        self._uncounted: list[tuple[bytes, bytes]] = []
        self._last_asked_ns = self._clock.steady_ns()
        self._heard: dict[bytes, None] = {}
        """The subjects on which clients were last seen listening."""

    def num_waiting(self) -> int:
        """Return how many pull requests wait for which somebody still listens."""
        self._pass_over_unheard(self._clock.steady_ns())
        return len(self.queue)

    def pull(self, body: bytes, reply: bytes) -> None:
        """Take a pull request."""
        if not reply:
            return
        now_ns = self._clock.steady_ns()
        self._last_asked_ns = now_ns
        try:
            request = parse_pull_request(body)
        except BadPullRequestError as error:
            self._tell(PullStatus(reply, 400, f"Bad Request - {error}"))
            return
        if not self.backlog.is_known:
            self._later(body, reply)
            return
        refusal = self.queue.add(reply, request, now_ns, len(self.backlog) + self.state.num_queued)
        self._tell_all(self.queue.take_statuses())
        if refusal is not None:
            self._tell(refusal)
            return
        if self.is_paused:
            self._tell_all(self.queue.at_end())
        self.wake()
        self._consumers.arm(self)

    def _later(self, body: bytes, reply: bytes) -> None:
        """Take the request once it is known what waits."""

        async def count_first() -> None:
            await self.backlog.count()
            self._counting = None
            uncounted, self._uncounted = self._uncounted, []
            for each in uncounted:
                self.pull(*each)

        if len(self._uncounted) >= (self.config.max_waiting or DEFAULT_MAX_WAITING):
            self._tell(PullStatus(reply, 409, "Exceeded MaxWaiting"))
            return
        self._uncounted.append((body, reply))
        if self._counting is None:
            self._counting = asyncio.create_task(count_first())
            self._counting.add_done_callback(self._pumped)

    def pull_next(self, body: bytes, reply: bytes) -> None:
        """Take the pull request that came with an acknowledgement."""
        self.pull(body.strip(), reply)

    def target(self) -> Target | None:
        """Return who is served next."""
        # First of all, since every consumer is asked with every message.
        if not len(self.queue) or self.is_paused or not self._outlet.is_open:
            return None
        now_ns = self._clock.steady_ns()
        while True:
            waiting = self.queue.next(now_ns, len(self.backlog), self.state.num_ack_pending)
            self._tell_all(self.queue.take_statuses())
            self._serving = waiting
            if waiting is None:
                return None
            if self._is_heard(waiting, now_ns):
                break
            self._pass_over(waiting, now_ns)
        if self.queue.takes_turns:
            self._pass_over_unheard(now_ns)
            return Target(waiting.reply, min(sum(each.messages for each in self.queue), CHUNK))
        # Who takes only what overflows is asked before each message.
        alone = len(self.queue) == 1 and self.config.priority_policy is not PriorityPolicy.OVERFLOW
        return Target(waiting.reply, min(waiting.messages, CHUNK) if alone else 1, waiting.size)

    def _is_heard(self, waiting: Waiting, now_ns: int) -> bool:
        """Return whether somebody listens for the messages of a request, or may be about to.

        Requests and the word of who listens come over two connections: either may be first. Who was heard of
        on the same subject before is less likely to be about to come than to have left.
        """
        if not self._outlet.is_open:
            return True  # not known: the connection that says who listens is lost
        if self._outlet.listens(waiting.reply):
            waiting.heard = True
            self._remember(waiting.reply)
            return True
        grace_ns = LEFT_NS if waiting.reply in self._heard else UNHEARD_NS
        return not waiting.heard and now_ns - waiting.asked_ns <= grace_ns

    def _pass_over(self, waiting: Waiting, now_ns: int) -> None:
        """Serve a request no more for now whose client left, or for good if it never listened."""
        if not waiting.heard:
            self.queue.drop(waiting)
            return
        self.queue.set_aside(waiting, now_ns)
        self._consumers.watch_interest(self)
        self._consumers.arm(self)

    def _pass_over_unheard(self, now_ns: int) -> None:
        for waiting in list(self.queue):
            if not self._is_heard(waiting, now_ns):
                self._pass_over(waiting, now_ns)

    def on_interest(self) -> None:
        """Serve the requests again whose clients are back."""
        back = [waiting for waiting in self.queue.away if self._outlet.listens(waiting.reply)]
        for waiting in back:
            self.queue.bring_back(waiting)
        if not self.queue.away:
            self._consumers.watch_interest(self, wanted=False)
        if back:
            self.wake()
            self._consumers.arm(self)

    def _remember(self, reply: bytes) -> None:
        if reply not in self._heard:
            if len(self._heard) >= MOST_HEARD:
                del self._heard[next(iter(self._heard))]
            self._heard[reply] = None

    def send(self, target: Target, deliveries: OutgoingMessages, size: int) -> None:
        """Send messages to who is served, or to each in turn."""
        if not self.queue.takes_turns:
            super().send(target, deliveries, size)
            return
        order = self.queue.rotation(len(deliveries.datas))
        rows: dict[bytes, list[int]] = {}
        for row, waiting in enumerate(order):
            rows.setdefault(waiting.reply, []).append(row)
        for reply, chosen in rows.items():
            self._outlet.deliver(reply, *deliveries.at(chosen))
        # By who was served last, so that the next turn is that of who has waited longest.
        counts = Counter(order)
        for waiting in reversed(dict.fromkeys(reversed(order))):
            self._tell(self.queue.served(waiting, counts[waiting], 0, self._clock.steady_ns()))

    def sent(self, target: Target, count: int, size: int) -> None:
        """Take note of what a request got."""
        waiting = self._serving
        if waiting is not None and waiting.reply == target.subject:
            self._tell(self.queue.served(waiting, count, size, self._clock.steady_ns()))

    def too_large(self, target: Target) -> None:
        """Close a request for which the next message is too large."""
        if self._serving is not None and self._serving in self.queue:
            self._tell(self.queue.too_large(self._serving))

    def at_end(self) -> None:
        """Close the requests that do not wait."""
        self._tell_all(self.queue.at_end())

    @property
    def header_bytes(self) -> int:
        """Return how much a delivery adds to the headers, at the most."""
        return PIN_BYTES if self.config.priority_policy is PriorityPolicy.PINNED_CLIENT else 0

    def marked(self, headers: list[bytes]) -> list[bytes]:
        """Return the headers with the pin of the client that gets the messages."""
        if self.config.priority_policy is not PriorityPolicy.PINNED_CLIENT or self._serving is None:
            return headers
        pin = self.queue.pin_of(self._serving, self._clock.steady_ns()).encode()
        self._report_pin()
        return [header_block.add(block, b"Nats-Pin-Id", pin) for block in headers]

    def tick(self, now_ns: int) -> int | None:
        """End what is over, send heartbeats, and go when nobody has asked for long."""
        if self._closed:
            return None
        due_ns = self.queue.next_deadline()
        self._tell_all(self.queue.expire(now_ns))
        if self._task is None and due_ns is not None and due_ns <= now_ns:
            # As nats-server does when a heartbeat or expiry is due: also while too much is unacknowledged.
            self._tell_all(self.queue.at_end())
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
        """Tell those who wait that the engine stops."""
        self._tell_all(self.queue.close(409, "Server Shutdown"))

    def unpin(self, group: str) -> None:
        """Let another client of a priority group be served."""
        if self.queue.unpin(group):
            self._report_pin()
            self.wake()

    def deleted(self) -> None:
        """Tell those who wait that the consumer is gone."""
        self._tell_all(self.queue.close(409, "Consumer Deleted", tell_left=False))

    def reconfigure(self, config: ConsumerConfig) -> None:
        """Go on with another config."""
        self.queue.configure(config)
        super().reconfigure(config)

    async def close(self) -> None:
        """Deliver nothing more."""
        if self._counting is not None:
            self._counting.cancel()
        await super().close()

    async def info(self) -> ConsumerInfo:
        """Return how the consumer stands."""
        info = await super().info()
        if not self.config.priority_groups:
            return info
        return info.with_groups(self.queue.groups)

    def _tell_all(self, statuses: list[PullStatus]) -> None:
        for status in statuses:
            self._tell(status)

    def _tell(self, status: PullStatus | None) -> None:
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
