"""A declared stream is a frozen value whose defaults say "no limit"."""

from __future__ import annotations

import msgspec
import pytest

from headwater.model.stream import Discard, Retention, Storage, StreamConfig, StreamState


def test_defaults_are_those_of_a_stream_that_says_nothing() -> None:
    config = StreamConfig(name="S")
    assert (config.retention, config.discard, config.storage) == (
        Retention.LIMITS,
        Discard.OLD,
        Storage.FILE,
    )
    assert {config.max_msgs, config.max_bytes, config.max_msg_size, config.max_msgs_per_subject} == {-1}
    assert config.metadata == {}


def test_a_config_does_not_change() -> None:
    with pytest.raises(AttributeError):
        StreamConfig(name="S").name = "T"  # type: ignore[misc]
    changed = msgspec.structs.replace(StreamConfig(name="S"), max_msgs=5)
    assert changed.max_msgs == 5
    assert changed != StreamConfig(name="S")


def test_equal_configs_are_equal() -> None:
    assert StreamConfig(name="S", metadata={"a": "b"}) == StreamConfig(name="S", metadata={"a": "b"})


def test_a_new_stream_is_empty() -> None:
    assert StreamState() == StreamState(messages=0, first_seq=0, last_seq=0, consumer_count=0)
