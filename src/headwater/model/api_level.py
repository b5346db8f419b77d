"""The API level: what a config requires of a server, and what this server shows in its metadata."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headwater.model import headers
from headwater.model.consumer import AckPolicy, ConsumerConfig, PriorityPolicy
from headwater.model.stream import PersistMode, StreamConfig
from headwater.model.times import ZERO_NS

API_LEVEL = 5
REQUIRED_HEADER = b"Nats-Required-Api-Level"
REQUIRED = "_nats.req.level"
_VERSION = "_nats.ver"
_LEVEL = "_nats.level"


def required_level(config: StreamConfig) -> int:
    """Return the lowest API level that supports everything in this config."""
    if config.allow_batched:
        return 4
    asynchronous = config.persist_mode is PersistMode.ASYNC
    if config.allow_msg_counter or config.allow_atomic or config.allow_msg_schedules or asynchronous:
        return 2
    if config.allow_msg_ttl or config.subject_delete_marker_ttl > 0:
        return 1
    return 0


def with_required_level(config: StreamConfig) -> StreamConfig:
    """Return the config as it is stored: with its required level, without what only answers show."""
    return msgspec.structs.replace(config, metadata=stored_metadata(config.metadata, required_level(config)))


def required_consumer_level(config: ConsumerConfig) -> int:
    """Return the lowest API level that supports everything in this consumer config."""
    if config.ack_policy is AckPolicy.FLOW_CONTROL:
        return 4
    prioritised = config.priority_policy is not PriorityPolicy.NONE
    # The nats command line sends the zero time if nothing is paused.
    paused = config.pause_until is not None and config.pause_until != ZERO_NS
    if prioritised or config.priority_groups or config.priority_timeout or paused:
        return 1
    return 0


def stored_metadata(metadata: Mapping[str, str], level: int) -> dict[str, str]:
    """Return the metadata as it is stored: with the required level, without what only answers show."""
    stored = {key: value for key, value in metadata.items() if key not in (_VERSION, _LEVEL)}
    stored[REQUIRED] = str(level)
    return stored


def shown_metadata(stored: Mapping[str, str], version: str) -> dict[str, str]:
    """Return the metadata as answers show it: with the version and level of the server."""
    return {**stored, _VERSION: version, _LEVEL: str(API_LEVEL)}


def level_is_enough(raw: bytes) -> bool:
    """Return whether we support the API level that a message's headers require, if any."""
    required = headers.get(raw, REQUIRED_HEADER) if raw else None
    if not required:
        return True
    try:
        return int(required) <= API_LEVEL
    except ValueError:
        return False
