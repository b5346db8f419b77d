"""The level a config needs is stored with it; version and level of the server are only shown."""

from __future__ import annotations

import pytest

from headwater.model.api_level import (
    required_consumer_level,
    required_level,
    shown_metadata,
    with_required_level,
)
from headwater.model.consumer import AckPolicy, ConsumerConfig
from headwater.model.stream import PersistMode, StreamConfig
from headwater.model.times import ZERO_NS, ZERO_TIME, parse_time


@pytest.mark.parametrize(
    ("config", "level"),
    [
        (StreamConfig(), 0),
        (StreamConfig(allow_msg_ttl=True), 1),
        (StreamConfig(subject_delete_marker_ttl=1), 1),
        (StreamConfig(allow_msg_counter=True, allow_msg_ttl=True), 2),
        (StreamConfig(allow_atomic=True), 2),
        (StreamConfig(allow_msg_schedules=True), 2),
        (StreamConfig(persist_mode=PersistMode.ASYNC), 2),
        (StreamConfig(allow_batched=True, allow_atomic=True), 4),
    ],
)
def test_the_newest_feature_sets_the_level(config: StreamConfig, level: int) -> None:
    assert required_level(config) == level


def test_what_a_client_sends_for_the_server_is_replaced() -> None:
    sent = {"a": "b", "_nats.ver": "1", "_nats.level": "9", "_nats.req.level": "9"}
    stored = with_required_level(StreamConfig(metadata=sent)).metadata
    assert stored == {"a": "b", "_nats.req.level": "0"}


def test_answers_show_version_and_level() -> None:
    shown = shown_metadata({"a": "b", "_nats.req.level": "0"}, "2.15.1")
    assert shown == {"a": "b", "_nats.req.level": "0", "_nats.ver": "2.15.1", "_nats.level": "5"}


@pytest.mark.parametrize(
    ("config", "level"),
    [
        (ConsumerConfig(), 0),
        (ConsumerConfig(pause_until=ZERO_NS), 0),
        (ConsumerConfig(pause_until=0), 1),
        (ConsumerConfig(priority_groups=("a",)), 1),
        (ConsumerConfig(ack_policy=AckPolicy.FLOW_CONTROL), 4),
    ],
)
def test_a_consumer_s_newest_feature_sets_its_level(config: ConsumerConfig, level: int) -> None:
    assert required_consumer_level(config) == level


def test_the_zero_time_is_the_one_that_go_prints() -> None:
    assert parse_time(ZERO_TIME) == ZERO_NS
