"""Tests of stan.channel."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from doors import opened_domain, services
from headwater.bus.connection import Connection
from headwater.bus.options import ConnectOptions
from headwater.clock import DrivenClock
from headwater.delivery.timers import Timers
from headwater.model.stream import StreamConfig
from headwater.stan.channel import Channel
from headwater.stan.flow import ChannelFlow
from headwater.stan.limits import ChannelLimits
from headwater.stan.outbox import Outbox
from headwater.stan.subscription import FlowKey, StanSubscription


def _ignore(changed: object) -> None:
    """Is called with what has changed, which these tests do not need."""


@pytest.fixture
async def clock() -> DrivenClock:
    return DrivenClock()


@pytest.fixture
async def channel(tmp_path: Path, clock: DrivenClock) -> AsyncIterator[Channel]:
    async with services(tmp_path) as shared, opened_domain(tmp_path, shared) as domain:
        stream, _ = await domain.create_stream(StreamConfig(name="foo", subjects=("foo",)))
        outbox = Outbox(Connection(ConnectOptions()))
        limits = ChannelLimits(max_inactivity=1000)
        yield Channel("foo", stream, limits, outbox, Timers(clock), clock, _ignore, _ignore)


def test_a_durable_without_a_client_counts_as_a_subscription(channel: Channel) -> None:
    durable = channel.add(1, FlowKey("foo", "me", "dur"), ChannelFlow(0))
    group = channel.add(2, FlowKey("foo", "", "", "group"), ChannelFlow(0))
    for number in (3, 4):
        channel.join(StanSubscription(number, "me", f"in{number}", f"ack{number}", 1, 1, group))
    assert (channel.subs_count, len(list(channel.subscriptions))) == (3, 2)
    assert channel.flow(durable.key) is durable
    channel.remove(durable.key)
    assert (channel.flow(durable.key), channel.flows) == (None, [group])


def test_a_channel_is_idle_without_subscribers_and_publishes(channel: Channel, clock: DrivenClock) -> None:
    began = clock.now_ns()
    assert channel.idle_at_ns() == began + 1000
    shared = channel.add(1, FlowKey("foo", "me", number=1), ChannelFlow(0))
    subscription = StanSubscription(2, "me", "in", "ack", 1, 1, shared)
    channel.join(subscription)
    assert channel.idle_at_ns() is None
    clock.advance(500)
    channel.leave(subscription)
    assert channel.idle_at_ns() == began + 1500
