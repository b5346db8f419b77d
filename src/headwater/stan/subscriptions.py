"""The subscriptions of all channels: created, resumed, acknowledged, closed and recorded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headwater.clock import Clock
from headwater.control.subject_rules import can_be_sent_to
from headwater.control.summed_tables import Op
from headwater.delivery.timers import Timers
from headwater.model.unique import unique_id
from headwater.stan import records, refusals
from headwater.stan.channel import Channel
from headwater.stan.clients import Clients
from headwater.stan.flow import ChannelFlow
from headwater.stan.journal import Journal
from headwater.stan.names import valid_channel
from headwater.stan.outbox import Outbox
from headwater.stan.records import FlowRow, Records, SubscriptionRow
from headwater.stan.refusals import StanRefusedError
from headwater.stan.start import last_sent_at
from headwater.stan.subscription import FlowKey, SharedFlow, StanSubscription
from headwater.wire.stan_frames import ack_seq
from headwater.wire.stan_messages import Ack, DecodeError, SubscriptionResponse

RECORD_EVERY_NS = 250_000_000
"""How long deliveries and acknowledgements may be unrecorded: after a crash they are repeated."""
_START_POSITIONS = range(5)


def check_request(request: Any, clients: Clients) -> None:
    """Refuse an invalid subscription request, with checks in NATS Streaming's order."""
    if not request.clientID:
        raise StanRefusedError(refusals.CLIENT_MISSING)
    if request.ackWaitInSecs <= 0:
        raise StanRefusedError(refusals.INVALID_ACK_WAIT)
    if request.maxInFlight <= 0:
        raise StanRefusedError(refusals.INVALID_MAX_IN_FLIGHT)
    if request.startPosition not in _START_POSITIONS:
        raise StanRefusedError(refusals.INVALID_START)
    if not valid_channel(request.subject):
        raise StanRefusedError(refusals.INVALID_CHANNEL)
    if not can_be_sent_to(request.inbox):
        raise StanRefusedError(refusals.INVALID_SUBSCRIBE)
    if clients.get(request.clientID) is None:
        raise StanRefusedError(refusals.CLIENT_UNKNOWN)


class Subscriptions:
    """Every subscription, found by the subject of its acknowledgements."""

    def __init__(
        self,
        clients: Clients,
        outbox: Outbox,
        journal: Journal,
        timers: Timers,
        clock: Clock,
        ack_prefix: str,
        *,
        replaces_durables: bool = False,
    ) -> None:
        self._clients = clients
        self._outbox = outbox
        self._journal = journal
        self._timers = timers
        self._clock = clock
        self._ack_prefix = ack_prefix
        self._replaces_durables = replaces_durables
        self._channels: dict[str, Channel] = {}
        """The open channels by name."""
        self._by_ack: dict[bytes, StanSubscription] = {}
        """By ack inbox, all subscriptions."""
        self._of_client: dict[str, dict[StanSubscription, None]] = {}
        """By client id, oldest first; a dict for its order."""
        self._last_number = 0
        """The highest number of a subscription that is not durable."""
        self._moved: dict[SharedFlow, None] = {}
        """Flows whose positions changed since the last record."""
        self._unheard: dict[StanSubscription, None] = {}
        """Subscriptions whose client has shown no interest since the engine started."""
        self._channel_rows: dict[str, str] = {}
        """The recorded identity of each channel's stream."""
        self._after_crash = False
        """Whether the last engine was killed, so that deliveries are in doubt."""
        self._recovered: dict[str, tuple[list[FlowRow], list[SubscriptionRow]]] = {}
        """Recorded flows and subscriptions of channels that are not open yet."""

    def __len__(self) -> int:
        return len(self._by_ack)

    def of_client(self, client_id: str) -> Iterable[StanSubscription]:
        """Return the subscriptions of a client, oldest first."""
        return self._of_client.get(client_id, {}).keys()

    # Recovery from the records.

    def recover(self, kept: Records, *, after_crash: bool) -> None:
        """Read the records; each channel gets its part when it is opened."""
        self._after_crash = after_crash
        self._channel_rows = kept.channels()
        flows, subscriptions = kept.flows(), kept.subscriptions()
        numbers = [row.number for row in flows] + [row.number for row in subscriptions]
        self._last_number = max(numbers, default=0)
        for row in flows:
            here = [s for s in subscriptions if s.flow == row.number]
            ours = self._recovered.setdefault(row.key.channel, ([], []))
            ours[0].append(row)
            ours[1].extend(here)

    @property
    def recovered_channels(self) -> list[str]:
        """Return the channels with records that are not recovered yet."""
        return sorted(self._recovered)

    def on_opened(self, channel: Channel) -> None:
        """Recover the recorded subscriptions of a channel."""
        self._channels[channel.name] = channel
        flows, subscriptions = self._recovered.pop(channel.name, ([], []))
        if self._channel_rows.get(channel.name) != channel.stream.identity:
            # The stream was re-created: the recorded positions belong to the old one.
            self._channel_rows[channel.name] = channel.stream.identity
            forget = [records.remove_flow(row.number) for row in flows]
            self._journal.put([*forget, records.add_channel(channel.name, channel.stream.identity)])
            return
        for row in flows:
            self._restore(channel, row, [s for s in subscriptions if s.flow == row.number])

    def _restore(self, channel: Channel, row: FlowRow, members: list[SubscriptionRow]) -> None:
        """Recover a flow without the members whose client is gone."""
        here = [member for member in members if self._clients.get(member.client_id) is not None]
        lost = [member for member in members if member not in here]
        if not here and not row.key.durable:
            self._journal.put([records.remove_flow(row.number)])
            return
        self._journal.put([records.remove_subscription(member.number) for member in lost])
        # A flow without members had not moved, so that its record is exact.
        doubted_through = channel.stream.reading.durable_seq if self._after_crash and members else 0
        # If a damaged log lost the end of the channel, the next messages there are new.
        last_seq = channel.stream.reading.last_seq
        pending = [seq for seq in row.pending if seq <= last_seq]
        flow = ChannelFlow(min(row.last_sent, last_seq), pending, doubted_through)
        shared = channel.add(row.number, row.key, flow)
        for member in here:
            subscription = StanSubscription(
                member.number,
                member.client_id,
                member.inbox,
                member.ack_inbox,
                member.max_in_flight,
                member.ack_wait_s,
                shared,
                answered=True,
            )
            self._join(channel, subscription)
            self._unheard[subscription] = None
            self._hear(subscription)

    # Requests.

    async def subscribe(self, channel: Channel, request: Any, reply: bytes) -> None:
        """Create a subscription to a channel and answer, or raise StanRefusedError."""
        key = self._key(request)
        shared = channel.flow(key)
        if shared is not None and key.durable and not key.group and shared.subscriptions:
            if not self._replaces_durables:
                raise StanRefusedError(refusals.DUPLICATE_DURABLE)
            replaced = shared.subscriptions[0]
            self._remove(replaced)
            self._journal.put([records.remove_subscription(replaced.number)])
        if key.group and ":" in key.durable:
            raise StanRefusedError(refusals.INVALID_DURABLE)
        limit = channel.limits.max_subscriptions
        resumes = shared is not None and not shared.subscriptions
        if 0 < limit <= channel.subs_count and not resumes:
            raise StanRefusedError(refusals.TOO_MANY_SUBSCRIPTIONS)
        ops: list[Op] = []
        if shared is None:
            last_sent = await last_sent_at(channel.stream, request, self._clock.now_ns())
            if self._clients.get(request.clientID) is None or channel.is_leaving:
                raise StanRefusedError(refusals.CLIENT_UNKNOWN)
            shared = channel.add(self._number(), key, ChannelFlow(last_sent))
            ops.append(records.add_flow(shared))
        subscription = StanSubscription(
            self._number(),
            request.clientID,
            request.inbox,
            self._ack_prefix + unique_id(),
            request.maxInFlight,
            request.ackWaitInSecs,
            shared,
        )
        self._join(channel, subscription)
        ops.append(records.add_subscription(subscription))
        self._journal.put(ops, lambda: self._answer(subscription, reply))

    def _key(self, request: Any) -> FlowKey:
        durable, group = request.durableName, request.qGroup
        if group:
            return FlowKey(request.subject, "", durable, group)
        if durable:
            return FlowKey(request.subject, request.clientID, durable)
        return FlowKey(request.subject, request.clientID, number=self._last_number + 1)

    def _number(self) -> int:
        self._last_number += 1
        return self._last_number

    def _join(self, channel: Channel, subscription: StanSubscription) -> None:
        self._by_ack[subscription.ack_inbox.encode()] = subscription
        self._of_client.setdefault(subscription.client_id, {})[subscription] = None
        subscription.member.in_doubt = self._clients.in_doubt(subscription.client_id)
        channel.join(subscription)

    def _answer(self, subscription: StanSubscription, reply: bytes) -> None:
        """Answer the client's request. Only now may it get messages."""
        body = SubscriptionResponse(ackInbox=subscription.ack_inbox).SerializeToString()
        self._outbox.answer(reply, body)
        subscription.answered = True
        # The request proves that it listens, even if its interest has not arrived yet.
        subscription.member.is_ready = True
        self._unheard[subscription] = None
        self._hear(subscription)
        self._wake(subscription.shared)

    def find(self, channel: str, inbox: str) -> StanSubscription | None:
        """Return the subscription on a channel with this inbox for acknowledgements, or for messages."""
        subscription = self._by_ack.get(inbox.encode())
        if subscription is not None:
            return subscription if subscription.channel == channel else None
        found = self._channels.get(channel)
        return next((s for s in found.subscriptions if s.inbox == inbox), None) if found else None

    def end(self, subscription: StanSubscription, *, forget: bool) -> list[Op]:
        """Remove a subscription; a durable is kept unless `forget`. Return the changes to record."""
        shared, channel = subscription.shared, self._channels.get(subscription.channel)
        self._remove(subscription)
        if shared.subscriptions or (shared.is_durable and not forget):
            return [records.remove_subscription(subscription.number), records.move_flow(shared)]
        if channel is not None:
            channel.remove(shared.key)
        self._moved.pop(shared, None)
        return [records.remove_flow(shared.number)]

    def _remove(self, subscription: StanSubscription) -> None:
        self._by_ack.pop(subscription.ack_inbox.encode(), None)
        self._of_client[subscription.client_id].pop(subscription, None)
        if not self._of_client[subscription.client_id]:
            del self._of_client[subscription.client_id]
        self._unheard.pop(subscription, None)
        channel = self._channels.get(subscription.channel)
        if channel is not None:
            channel.leave(subscription)

    def end_all(self, client_id: str) -> list[Op]:
        """Close all subscriptions of a client; return the changes to record."""
        return [op for s in list(self.of_client(client_id)) for op in self.end(s, forget=False)]

    # Acknowledgements, deliveries, and subscriber interest.

    def acknowledge(self, frames: Iterable[tuple[bytes, bytes]]) -> None:
        """Apply acknowledgements: pairs of ack inbox and body."""
        by_subscription: dict[StanSubscription, list[int]] = {}
        for inbox, body in frames:
            subscription = self._by_ack.get(inbox)
            if subscription is not None:
                by_subscription.setdefault(subscription, []).append(_acked(subscription.ack_prefix, body))
        touched = {
            subscription.shared: None
            for subscription, seqs in by_subscription.items()
            if subscription.shared.flow.acknowledge_all(subscription.member, seqs)
        }
        for shared in touched:
            self.on_moved(shared)
            self._wake(shared)

    def _wake(self, shared: SharedFlow) -> None:
        channel = self._channels.get(shared.key.channel)
        if channel is not None:
            channel.wake(shared.key)

    def on_moved(self, shared: SharedFlow) -> None:
        """Schedule recording a flow's position."""
        if not self._moved:
            self._timers.at(self._clock.steady_ns() + RECORD_EVERY_NS, self)
        self._moved[shared] = None

    def tick(self, now_ns: int) -> int | None:
        """Record the positions of changed flows."""
        self.record()
        return None

    def record(self) -> None:
        """Queue the positions of changed flows for recording."""
        moved, self._moved = self._moved, {}
        if moved:
            self._journal.put([records.move_flow(shared) for shared in moved])

    def set_doubt(self, client_id: str, in_doubt: bool) -> None:
        """Avoid, or use again, the subscriptions of a client that misses heartbeats."""
        for subscription in list(self.of_client(client_id)):
            subscription.member.in_doubt = in_doubt
            self._wake(subscription.shared)

    def trust(self, client_id: str) -> None:
        """Send to a client that answers heartbeats, even if its interest is unknown."""
        for subscription in list(self.of_client(client_id)):
            if subscription in self._unheard and not subscription.member.is_ready:
                subscription.member.is_ready = True
                self._wake(subscription.shared)

    def on_interest(self) -> None:
        """Start sending to clients with new interest."""
        for subscription in list(self._unheard):
            self._hear(subscription)

    def look_who_listens(self) -> None:
        """Stop sending to clients without interest; resend to those that have it again."""
        for subscription in list(self._by_ack.values()):
            if subscription not in self._unheard:
                self._hear(subscription)

    def _hear(self, subscription: StanSubscription) -> None:
        if not subscription.answered:
            return
        member, listens = subscription.member, self._outbox.listens
        hears = listens is None or listens(subscription.inbox.encode())
        if hears:
            self._unheard.pop(subscription, None)
        elif subscription in self._unheard:
            return
        if hears == member.is_ready:
            return
        member.is_ready = hears
        if hears:
            subscription.shared.flow.release(member)
            self._wake(subscription.shared)

    def on_lost(self, channel: Channel) -> None:
        """Remove the subscriptions of a deleted channel."""
        self._channels.pop(channel.name, None)
        for subscription in list(channel.subscriptions):
            self._by_ack.pop(subscription.ack_inbox.encode(), None)
            self._of_client.get(subscription.client_id, {}).pop(subscription, None)
            self._unheard.pop(subscription, None)
        for shared in channel.flows:
            self._moved.pop(shared, None)
        self._channel_rows.pop(channel.name, None)
        forget = [records.remove_flow(shared.number) for shared in channel.flows]
        self._journal.put([*forget, records.remove_channel(channel.name)])


def _acked(prefix: bytes, body: bytes) -> int:
    """Return the acknowledged sequence, 0 if the body is not an acknowledgement."""
    if body.startswith(prefix) and (seq := ack_seq(body[len(prefix) :])):
        return seq
    try:
        return int(Ack.FromString(body).sequence)
    except DecodeError:
        return 0
