"""One channel: its stream, its flows, and the time of its last use."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headwater.clock import Clock
from headwater.delivery.timers import Timers
from headwater.stan.flow import ChannelFlow
from headwater.stan.limits import ChannelLimits
from headwater.stan.outbox import Outbox
from headwater.stan.sender import Encoded, Sender
from headwater.stan.subscription import FlowKey, SharedFlow, StanSubscription
from headwater.stream.stream import Stream


class Channel:
    """A stream as STAN clients see it."""

    def __init__(
        self,
        name: str,
        stream: Stream,
        limits: ChannelLimits,
        outbox: Outbox,
        timers: Timers,
        clock: Clock,
        on_moved: Callable[[SharedFlow], None],
        on_left: Callable[[Channel], None],
    ) -> None:
        self.name = name
        self.subject = name.encode()
        self.stream = stream
        self.limits = limits
        self.is_leaving = False
        """Whether it is being deleted."""
        self.active_ns = clock.steady_ns()
        """When the channel was last used."""
        self._outbox = outbox
        self._timers = timers
        self._clock = clock
        self._on_moved = on_moved
        """Called when a flow's position changes."""
        self._on_left = on_left
        """Called when a subscription or a flow was removed."""
        self._encoded = Encoded(name)
        self._senders: dict[FlowKey, Sender] = {}
        """One for each flow."""
        stream.events.message_callbacks.add(self._stored)

    @property
    def flows(self) -> list[SharedFlow]:
        """Return the flows, oldest first."""
        return [sender.shared for sender in self._senders.values()]

    @property
    def subscriptions(self) -> Iterator[StanSubscription]:
        """Yield the clients' subscriptions."""
        for sender in self._senders.values():
            yield from sender.shared.subscriptions

    @property
    def subs_count(self) -> int:
        """Return how many subscriptions there are, durables without a client included."""
        return sum(max(1, len(sender.shared.subscriptions)) for sender in self._senders.values())

    def flow(self, key: FlowKey) -> SharedFlow | None:
        """Return the flow with this key."""
        sender = self._senders.get(key)
        return sender.shared if sender else None

    def add(self, number: int, key: FlowKey, flow: ChannelFlow) -> SharedFlow:
        """Add a flow and return it."""
        shared = SharedFlow(number, key, flow)
        self._senders[key] = Sender(
            shared, self.stream, self._encoded, self._outbox, self._timers, self._clock, self._on_moved
        )
        self._encoded.is_worth_it = len(self._senders) > 1
        return shared

    def remove(self, key: FlowKey) -> None:
        """Remove a flow."""
        self._senders.pop(key).close()
        self._encoded.is_worth_it = len(self._senders) > 1
        self._on_left(self)

    def join(self, subscription: StanSubscription) -> None:
        """Add a subscription to its flow; it gets no messages before it is ready."""
        subscription.shared.subscriptions.append(subscription)
        subscription.shared.flow.join(subscription.member)

    def leave(self, subscription: StanSubscription) -> None:
        """Remove a subscription; its messages are redelivered to the other members."""
        subscription.shared.subscriptions.remove(subscription)
        subscription.shared.flow.leave(subscription.member)
        self.active_ns = self._clock.steady_ns()
        self.wake(subscription.shared.key)
        self._on_left(self)

    def wake(self, key: FlowKey) -> None:
        """Send a flow's messages."""
        sender = self._senders.get(key)
        if sender is not None:
            sender.wake()

    def _stored(self) -> None:
        self.active_ns = self._clock.steady_ns()
        for sender in list(self._senders.values()):
            sender.wake()

    def close(self) -> None:
        """Stop sending."""
        self.stream.events.message_callbacks.discard(self._stored)
        for sender in self._senders.values():
            sender.close()

    def idle_at_ns(self) -> int | None:
        """Return when the channel becomes inactive; None if it has no inactivity limit."""
        if not self.limits.max_inactivity or any(True for _ in self.subscriptions):
            return None
        return self.active_ns + self.limits.max_inactivity
