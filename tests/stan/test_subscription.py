"""Tests of stan.subscription."""

from __future__ import annotations

from headwater.stan.flow import ChannelFlow
from headwater.stan.subscription import FlowKey, SharedFlow, StanSubscription


def test_a_durable_group_is_shown_with_both_names() -> None:
    assert FlowKey("foo", "", "dur", "group").queue_name == "dur:group"
    assert FlowKey("foo", "", "", "group").queue_name == "group"
    assert FlowKey("foo", "me", "dur").queue_name == ""


def test_a_subscription_gets_nothing_before_it_is_ready() -> None:
    shared = SharedFlow(1, FlowKey("foo", "me", "dur"), ChannelFlow(0))
    subscription = StanSubscription(2, "me", "in", "ack", 10, 30, shared)
    shared.flow.join(subscription.member)
    assert (subscription.channel, shared.is_durable) == ("foo", True)
    assert (subscription.member.max_in_flight, subscription.member.ack_wait_ns) == (10, 30_000_000_000)
    assert shared.flow.room() == 0
    subscription.member.is_ready = True
    assert shared.flow.room() == 10
