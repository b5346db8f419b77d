"""A declared consumer is a frozen value that knows its kind."""

from __future__ import annotations

import msgspec
import pytest

from headwater.model.consumer import (
    AckPolicy,
    Action,
    ConsumerConfig,
    CreateRequest,
    DeliverPolicy,
    PullRequest,
    ReplayPolicy,
)


def test_defaults_are_those_of_a_consumer_that_says_nothing() -> None:
    config = ConsumerConfig()
    assert (config.deliver_policy, config.ack_policy, config.replay_policy) == (
        DeliverPolicy.ALL,
        AckPolicy.NONE,
        ReplayPolicy.INSTANT,
    )
    assert (config.is_push, config.is_durable, config.filters) == (False, False, ())
    assert CreateRequest().action is Action.CREATE_OR_UPDATE


def test_a_config_knows_its_kind() -> None:
    assert ConsumerConfig(deliver_subject="d").is_push
    assert ConsumerConfig(durable_name="d").is_durable
    assert ConsumerConfig(filter_subject="a").filters == ("a",)
    assert ConsumerConfig(filter_subjects=("a", "b")).filters == ("a", "b")


def test_a_config_says_what_survives_a_restart_and_what_settles_a_message() -> None:
    assert ConsumerConfig().is_recorded
    assert not ConsumerConfig(mem_storage=True).is_recorded
    assert not ConsumerConfig(direct=True).is_recorded
    settles = {policy: ConsumerConfig(ack_policy=policy).settles_single for policy in AckPolicy}
    assert [policy for policy, single in settles.items() if single] == [AckPolicy.EXPLICIT]
    at_delivery = [p for p in AckPolicy if ConsumerConfig(ack_policy=p).acks_at_delivery]
    assert at_delivery == [AckPolicy.NONE]


@pytest.mark.parametrize(("text", "percent"), [("", 0), ("30", 30), ("30%", 30), ("all", 0), ("-1", 0)])
def test_the_sampling_rate_is_read_with_and_without_its_sign(text: str, percent: int) -> None:
    assert ConsumerConfig(sample_freq=text).sample_percent == percent


def test_a_config_does_not_change() -> None:
    with pytest.raises(AttributeError):
        ConsumerConfig(name="c").name = "d"  # type: ignore[misc]
    assert msgspec.structs.replace(ConsumerConfig(name="c"), max_deliver=5).max_deliver == 5


def test_a_pull_request_asks_for_one_message() -> None:
    assert PullRequest().batch == 1
    assert not PullRequest().formal
