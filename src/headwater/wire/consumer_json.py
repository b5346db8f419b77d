"""Consumer configs, infos and create requests as the JSON of the JetStream API."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.model import times
from headwater.model.consumer import (
    AckPolicy,
    Action,
    ConsumerConfig,
    ConsumerInfo,
    CreateRequest,
    DeliverPolicy,
    PriorityGroupState,
    PriorityPolicy,
    ReplayPolicy,
    SequenceInfo,
)
from headwater.wire import go_json
from headwater.wire.go_json import array, boolean, duration, enum, int_, string, struct, uint64

Json = dict[str, Any]

_STRINGS = array(string, "[]string", null="")
_CONFIG_FIELDS = {
    "durable_name": string,
    "name": string,
    "description": string,
    "deliver_policy": enum({p.value: p for p in DeliverPolicy} | {"undefined": DeliverPolicy.ALL}),
    "opt_start_seq": uint64,
    "opt_start_time": go_json.time,
    "ack_policy": enum({p.value: p for p in AckPolicy}),
    "ack_wait": duration,
    "max_deliver": int_,
    "backoff": array(duration, "[]time.Duration", null=0),
    "filter_subject": string,
    "filter_subjects": _STRINGS,
    "replay_policy": enum({p.value: p for p in ReplayPolicy}),
    "rate_limit_bps": uint64,
    "sample_freq": string,
    "max_waiting": int_,
    "max_ack_pending": int_,
    "flow_control": boolean,
    "headers_only": boolean,
    "max_batch": int_,
    "max_expires": duration,
    "max_bytes": int_,
    "deliver_subject": string,
    "deliver_group": string,
    "idle_heartbeat": duration,
    "inactive_threshold": duration,
    "num_replicas": int_,
    "mem_storage": boolean,
    "direct": boolean,
    "sourcing": boolean,
    "metadata": go_json.string_map,
    "pause_until": go_json.time,
    "priority_groups": _STRINGS,
    "priority_policy": enum({p.value: p for p in PriorityPolicy}, complaint="unknown priority policy: {raw}"),
    "priority_timeout": duration,
}
_CREATE_FIELDS = {
    "stream_name": string,
    "config": struct(_CONFIG_FIELDS, "server.ConsumerConfig", ConsumerConfig),
    "action": enum({a.value: a for a in Action}, complaint="unknown consumer action: {raw}"),
    "pedantic": boolean,
}
_ALWAYS = frozenset(["deliver_policy", "ack_policy", "replay_policy", "num_replicas"])
_TIMES = frozenset(["opt_start_time", "pause_until"])


def decode_create(body: bytes) -> CreateRequest:
    """Return the request to create or update a consumer."""
    return CreateRequest(**go_json.decode(body, _CREATE_FIELDS, "CreateConsumerRequest"))


def decode_config(body: bytes) -> ConsumerConfig:
    """Return the config that `encode_config` wrote."""
    return ConsumerConfig(**go_json.decode(body, _CONFIG_FIELDS, "ConsumerConfig"))


def encode_config(config: ConsumerConfig) -> bytes:
    """Return the config as JSON that `decode_config` reads back."""
    return msgspec.json.encode(config_json(config))


def config_json(config: ConsumerConfig) -> Json:
    """Return the config as nats-server shows it: some fields always, others only if they are set."""
    shown: Json = {}
    for name in ConsumerConfig.__struct_fields__:
        value = getattr(config, name)
        if name in _TIMES:
            if value is not None:
                shown[name] = times.format_time(value)
        elif name in _ALWAYS or value:
            shown[name] = dict(sorted(value.items())) if name == "metadata" else value
    if config.priority_policy is PriorityPolicy.NONE:
        del shown["priority_policy"]
    return shown


def info_json(info: ConsumerInfo) -> Json:
    """Return a consumer's info as nats-server shows it."""
    shown: Json = {
        "stream_name": info.stream_name,
        "name": info.name,
        "created": times.format_time(info.created),
        "config": config_json(info.config),
        "delivered": _sequence_json(info.delivered),
        "ack_floor": _sequence_json(info.ack_floor),
        "num_ack_pending": info.num_ack_pending,
        "num_redelivered": info.num_redelivered,
        "num_waiting": info.num_waiting,
        "num_pending": info.num_pending,
    }
    for name in ("push_bound", "paused", "pause_remaining"):
        if value := getattr(info, name):
            shown[name] = value
    shown["ts"] = times.format_time(info.ts)
    if info.priority_groups:
        shown["priority_groups"] = [_group_json(group) for group in info.priority_groups]
    return shown


def _sequence_json(sequence: SequenceInfo) -> Json:
    shown: Json = {"consumer_seq": sequence.consumer_seq, "stream_seq": sequence.stream_seq}
    if sequence.last_active:
        shown["last_active"] = times.format_time(sequence.last_active)
    return shown


def _group_json(group: PriorityGroupState) -> Json:
    shown: Json = {"group": group.group}
    if group.pinned_client_id:
        shown["pinned_client_id"] = group.pinned_client_id
    shown["pinned_ts"] = times.format_time(group.pinned_ts) if group.pinned_ts else times.ZERO_TIME
    return shown
