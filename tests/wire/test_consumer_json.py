"""Consumers as JSON: what requests may say, and what answers show."""

from __future__ import annotations

import json

import pytest

from headwater.errors import ApiError
from headwater.model.consumer import (
    AckPolicy,
    Action,
    ConsumerConfig,
    ConsumerInfo,
    DeliverPolicy,
    PriorityGroupState,
    PriorityPolicy,
    SequenceInfo,
)
from headwater.wire.consumer_json import config_json, decode_config, decode_create, encode_config, info_json

FULL = ConsumerConfig(
    durable_name="c",
    name="c",
    description="d",
    deliver_policy=DeliverPolicy.BY_START_TIME,
    opt_start_time=1_500_000_000,
    ack_policy=AckPolicy.EXPLICIT,
    ack_wait=5,
    max_deliver=-1,
    backoff=(5, 6),
    filter_subjects=("a", "b"),
    sample_freq="30%",
    max_waiting=512,
    max_ack_pending=1000,
    metadata={"b": "1", "a": "2"},
    pause_until=2_000_000_000,
    priority_groups=("g",),
    priority_policy=PriorityPolicy.PINNED_CLIENT,
    priority_timeout=7,
)


def test_a_create_request_is_read() -> None:
    request = decode_create(
        b'{"stream_name":"S","config":{"ack_policy":"explicit","backoff":[1,2]},"action":"create","pedantic":true}'
    )
    assert (request.stream_name, request.action, request.pedantic) == ("S", Action.CREATE, True)
    assert request.config == ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, backoff=(1, 2))


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ApiError) as refused:
        decode_create(b'{"stream_name":"S","config":{"bogus":1}}')
    assert refused.value.err_code == 10025
    assert refused.value.description == 'invalid JSON: json: unknown field "bogus"'


@pytest.mark.parametrize("config", [ConsumerConfig(), FULL], ids=["empty", "full"])
def test_a_config_reads_back_as_it_was(config: ConsumerConfig) -> None:
    assert decode_config(encode_config(config)) == config


def test_some_fields_always_show() -> None:
    assert config_json(ConsumerConfig()) == {
        "deliver_policy": "all",
        "ack_policy": "none",
        "replay_policy": "instant",
        "num_replicas": 0,
    }


def test_fields_show_in_the_order_of_nats_server() -> None:
    shown = json.loads(encode_config(FULL))
    assert list(shown) == [
        "durable_name",
        "name",
        "description",
        "deliver_policy",
        "opt_start_time",
        "ack_policy",
        "ack_wait",
        "max_deliver",
        "backoff",
        "filter_subjects",
        "replay_policy",
        "sample_freq",
        "max_waiting",
        "max_ack_pending",
        "num_replicas",
        "metadata",
        "pause_until",
        "priority_groups",
        "priority_policy",
        "priority_timeout",
    ]
    assert shown["opt_start_time"] == "1970-01-01T00:00:01.5Z"
    assert list(shown["metadata"]) == ["a", "b"]


def test_an_info_shows_what_says_something() -> None:
    info = ConsumerInfo(stream_name="S", name="c", created=1, config=ConsumerConfig(), ts=2)
    assert info_json(info) == {
        "stream_name": "S",
        "name": "c",
        "created": "1970-01-01T00:00:00.000000001Z",
        "config": config_json(ConsumerConfig()),
        "delivered": {"consumer_seq": 0, "stream_seq": 0},
        "ack_floor": {"consumer_seq": 0, "stream_seq": 0},
        "num_ack_pending": 0,
        "num_redelivered": 0,
        "num_waiting": 0,
        "num_pending": 0,
        "ts": "1970-01-01T00:00:00.000000002Z",
    }


def test_an_info_shows_activity_pause_and_pins() -> None:
    shown = info_json(
        ConsumerInfo(
            stream_name="S",
            name="c",
            created=1,
            config=ConsumerConfig(),
            delivered=SequenceInfo(3, 9, 1_000_000_000),
            push_bound=True,
            paused=True,
            pause_remaining=5,
            ts=2,
            priority_groups=(PriorityGroupState("g"), PriorityGroupState("h", "id", 1_000_000_000)),
        )
    )
    assert shown["delivered"] == {"consumer_seq": 3, "stream_seq": 9, "last_active": "1970-01-01T00:00:01Z"}
    assert (shown["push_bound"], shown["paused"], shown["pause_remaining"]) == (True, True, 5)
    assert shown["priority_groups"] == [
        {"group": "g", "pinned_ts": "0001-01-01T00:00:00Z"},
        {"group": "h", "pinned_client_id": "id", "pinned_ts": "1970-01-01T00:00:01Z"},
    ]
