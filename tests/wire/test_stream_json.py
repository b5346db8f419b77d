"""Stream configs, states and source infos in the JSON that nats-server speaks."""

from __future__ import annotations

import msgspec
import pytest

from headwater.errors import ApiError, api_error
from headwater.model import times
from headwater.model.stream import (
    Compression,
    ConsumerLimits,
    Discard,
    LostMessages,
    PersistMode,
    Placement,
    RePublish,
    Retention,
    Storage,
    StreamConfig,
    StreamState,
)
from headwater.model.upstream import ConsumerSource, External, StreamSource, StreamSourceInfo, TransformConfig
from headwater.wire import stream_json

FULL = StreamConfig(
    name="S",
    description="d",
    subjects=("a", "b.>"),
    retention=Retention.INTEREST,
    max_consumers=3,
    max_msgs=4,
    max_bytes=5,
    max_age=6,
    max_msgs_per_subject=7,
    max_msg_size=8,
    discard=Discard.NEW,
    storage=Storage.MEMORY,
    num_replicas=3,
    no_ack=True,
    duplicate_window=9,
    placement=Placement("c", ("t",), "p"),
    mirror=StreamSource("M", 5, 1_500_000_000, "x", (), External("a", "d"), ConsumerSource("c", "s")),
    sources=(StreamSource("A", subject_transforms=(TransformConfig("a", "b"),)), StreamSource("B")),
    compression=Compression.S2,
    first_seq=10,
    subject_transform=TransformConfig("a", "z"),
    republish=RePublish("a", "r", True),
    allow_direct=True,
    mirror_direct=True,
    discard_new_per_subject=True,
    sealed=True,
    deny_delete=True,
    deny_purge=True,
    allow_rollup_hdrs=True,
    consumer_limits=ConsumerLimits(11, 12),
    allow_msg_ttl=True,
    subject_delete_marker_ttl=13,
    allow_msg_counter=True,
    allow_atomic=True,
    allow_msg_schedules=True,
    persist_mode=PersistMode.ASYNC,
    allow_batched=True,
    metadata={"b": "2", "a": "1"},
)


def test_every_field_is_read_and_shown() -> None:
    shown = stream_json.config_json(FULL)
    assert set(shown) == set(StreamConfig.__struct_fields__)
    assert stream_json.decode_config(stream_json.encode_config(FULL)) == (FULL, False)


def test_a_small_config_shows_what_nats_server_always_shows() -> None:
    assert stream_json.config_json(StreamConfig(name="S")) == {
        "name": "S",
        "retention": "limits",
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msgs_per_subject": -1,
        "max_msg_size": -1,
        "discard": "old",
        "storage": "file",
        "num_replicas": 1,
        "compression": "none",
        "allow_direct": False,
        "mirror_direct": False,
        "sealed": False,
        "deny_delete": False,
        "deny_purge": False,
        "allow_rollup_hdrs": False,
        "consumer_limits": {},
        "allow_msg_ttl": False,
    }


def test_pedantic_is_of_the_request_alone() -> None:
    assert stream_json.decode_config(b'{"name":"S","pedantic":true}') == (StreamConfig(name="S"), True)


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(ApiError) as caught:
        stream_json.decode_config(b'{"name":"S","sources":[{"name":"A","domain":"d"}]}')
    assert (caught.value.err_code, caught.value.description) == (
        10025,
        'invalid JSON: json: unknown field "domain"',
    )


def test_an_external_and_a_transform_show_both_keys() -> None:
    source = StreamSource("A", subject_transforms=(TransformConfig("a"),), external=External("p"))
    assert stream_json.source_json(source) == {
        "name": "A",
        "subject_transforms": [{"src": "a", "dest": ""}],
        "external": {"api": "p", "deliver": ""},
    }


def test_an_empty_state_shows_the_zero_time() -> None:
    assert stream_json.state_json(StreamState()) == {
        "messages": 0,
        "bytes": 0,
        "first_seq": 0,
        "first_ts": times.ZERO_TIME,
        "last_seq": 0,
        "last_ts": times.ZERO_TIME,
        "consumer_count": 0,
    }


def test_a_state_shows_details_only_when_it_has_them() -> None:
    state = StreamState(
        last_ts=1_500_000_000,
        num_subjects=1,
        subjects={"a": 2},
        num_deleted=1,
        deleted=(3,),
        lost=LostMessages((4,), 5),
    )
    shown = stream_json.state_json(state)
    assert shown["last_ts"] == "1970-01-01T00:00:01.5Z"
    assert shown["subjects"] == {"a": 2}
    assert msgspec.json.decode(msgspec.json.encode(shown))["deleted"] == [3]
    assert shown["lost"] == {"msgs": (4,), "bytes": 5}


def test_a_source_that_never_was_active_shows_minus_one() -> None:
    assert stream_json.source_info_json(StreamSourceInfo("A")) == {"name": "A", "lag": 0, "active": -1}


def test_a_failing_source_shows_its_error() -> None:
    info = StreamSourceInfo("A", External("p"), 5, 7, 8, api_error("stream_not_found"), "f")
    assert stream_json.source_info_json(info) == {
        "name": "A",
        "external": {"api": "p", "deliver": ""},
        "lag": 5,
        "seq": 7,
        "active": 8,
        "error": {"code": 404, "err_code": 10059, "description": "stream not found"},
        "filter_subject": "f",
    }
