"""A consumer's config is completed once and then left alone, and refused with the error of its field."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.control.account import AccountLimits
from headwater.control.consumer_config_rules import check_config, complete
from headwater.errors import ApiError
from headwater.model.consumer import AckPolicy, ConsumerConfig, PriorityPolicy
from headwater.model.stream import ConsumerLimits, Retention, StreamConfig

S = 1_000_000_000
STREAM = StreamConfig(name="S", subjects=("s.>",))
LIMITS = AccountLimits()


def completed(stream: StreamConfig = STREAM, **fields: Any) -> ConsumerConfig:
    """Return the config with its defaults."""
    return complete(ConsumerConfig(**fields), stream, LIMITS, pedantic=False)


def refusal(stream: StreamConfig = STREAM, **fields: Any) -> int:
    """Return the err_code with which a config is refused."""
    with pytest.raises(ApiError) as refused:
        check_config(completed(stream, **fields), stream, LIMITS)
    return refused.value.err_code


def test_defaults_depend_on_the_kind() -> None:
    pull = completed(ack_policy=AckPolicy.EXPLICIT)
    assert (pull.max_waiting, pull.ack_wait, pull.max_ack_pending, pull.max_deliver) == (
        512,
        30 * S,
        1000,
        -1,
    )
    push = completed(deliver_subject="d")
    assert (push.max_waiting, push.ack_wait, push.max_ack_pending, push.max_deliver) == (0, 0, 0, -1)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"ack_policy": AckPolicy.EXPLICIT, "backoff": (S, 2 * S)},
        {"ack_policy": AckPolicy.FLOW_CONTROL, "deliver_subject": "d"},
        {"priority_policy": PriorityPolicy.PINNED_CLIENT, "priority_groups": ("g",)},
        {"max_deliver": -9, "max_waiting": -9, "max_ack_pending": -9},
    ],
)
def test_a_completed_config_stays_as_it_is(fields: dict[str, Any]) -> None:
    config = completed(**fields)
    assert complete(config, STREAM, LIMITS, pedantic=False) == config
    check_config(config, STREAM, LIMITS)


def test_the_stream_s_limits_are_taken_over_and_kept_to() -> None:
    limits = ConsumerLimits(inactive_threshold=60 * S, max_ack_pending=7)
    stream = StreamConfig(name="S", consumer_limits=limits)
    config = completed(stream, ack_policy=AckPolicy.EXPLICIT)
    assert (config.max_ack_pending, config.inactive_threshold) == (7, 60 * S)
    assert refusal(stream, ack_policy=AckPolicy.EXPLICIT, max_ack_pending=8) == 10121
    assert refusal(stream, inactive_threshold=61 * S) == 10153


def test_where_messages_stay_for_consumers_replicas_must_match() -> None:
    stream = StreamConfig(name="S", num_replicas=3, retention=Retention.INTEREST)
    assert refusal(stream, num_replicas=1) == 10134
    assert refusal(stream, num_replicas=5) == 10126
    check_config(completed(stream, num_replicas=3), stream, LIMITS)
