"""Stream configs, states and source infos as the JSON of the JetStream API."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.errors import ApiError
from headwater.model import times
from headwater.model.stream import (
    Compression,
    ConsumerLimits,
    Discard,
    PersistMode,
    Placement,
    RePublish,
    Retention,
    Storage,
    StreamConfig,
    StreamState,
)
from headwater.model.upstream import ConsumerSource, External, StreamSource, StreamSourceInfo, TransformConfig
from headwater.wire import go_json
from headwater.wire.go_json import array, boolean, duration, enum, int32, int64, int_, string, struct, uint64
from headwater.wire.progress_json import EXTENSION, progress_json

Json = dict[str, Any]

_STRINGS = array(string, "[]string", null="")
_TRANSFORM = struct({"src": string, "dest": string}, "server.SubjectTransformConfig", TransformConfig)
_TRANSFORMS = array(_TRANSFORM, "[]server.SubjectTransformConfig", null=TransformConfig())
_EXTERNAL = struct({"api": string, "deliver": string}, "server.ExternalStream", External)
_CONSUMER = struct({"name": string, "deliver_subject": string}, "server.StreamConsumerSource", ConsumerSource)
_SOURCE = struct(
    {
        "name": string,
        "opt_start_seq": uint64,
        "opt_start_time": go_json.time,
        "filter_subject": string,
        "subject_transforms": _TRANSFORMS,
        "external": _EXTERNAL,
        "consumer": _CONSUMER,
    },
    "server.StreamSource",
    StreamSource,
)
_FIELDS = {
    "name": string,
    "description": string,
    "subjects": _STRINGS,
    "retention": enum({r.value: r for r in Retention}),
    "max_consumers": int_,
    "max_msgs": int64,
    "max_bytes": int64,
    "max_age": duration,
    "max_msgs_per_subject": int64,
    "max_msg_size": int32,
    "discard": enum({d.value: d for d in Discard}, any_case=True),
    "storage": enum({s.value: s for s in Storage}),
    "num_replicas": int_,
    "no_ack": boolean,
    "duplicate_window": duration,
    "placement": struct(
        {"cluster": string, "tags": _STRINGS, "preferred": string}, "server.Placement", Placement
    ),
    "mirror": _SOURCE,
    # A null entry becomes a source without a name, which the rules refuse.
    "sources": array(_SOURCE, "[]*server.StreamSource", null=StreamSource()),
    "compression": enum({c.value: c for c in Compression}, complaint="unknown compression algorithm"),
    "first_seq": uint64,
    "subject_transform": _TRANSFORM,
    "republish": struct(
        {"src": string, "dest": string, "headers_only": boolean}, "server.RePublish", RePublish
    ),
    "allow_direct": boolean,
    "mirror_direct": boolean,
    "discard_new_per_subject": boolean,
    "sealed": boolean,
    "deny_delete": boolean,
    "deny_purge": boolean,
    "allow_rollup_hdrs": boolean,
    "consumer_limits": struct(
        {"inactive_threshold": duration, "max_ack_pending": int_},
        "server.StreamConsumerLimits",
        ConsumerLimits,
    ),
    "allow_msg_ttl": boolean,
    "subject_delete_marker_ttl": duration,
    "allow_msg_counter": boolean,
    "allow_atomic": boolean,
    "allow_msg_schedules": boolean,
    "persist_mode": enum({m.value: m for m in PersistMode} | {"": PersistMode.DEFAULT}),
    "allow_batched": boolean,
    "metadata": go_json.string_map,
    "pedantic": boolean,
}
_ALWAYS = frozenset(
    [
        "name",
        "retention",
        "max_consumers",
        "max_msgs",
        "max_bytes",
        "max_age",
        "max_msgs_per_subject",
        "discard",
        "storage",
        "num_replicas",
        "compression",
        "allow_direct",
        "mirror_direct",
        "sealed",
        "deny_delete",
        "deny_purge",
        "allow_rollup_hdrs",
        "consumer_limits",
        "allow_msg_ttl",
    ]
)


def decode_config(body: bytes) -> tuple[StreamConfig, bool]:
    """Return the config of a create or update request, and whether the request is pedantic."""
    members = go_json.decode(body, _FIELDS, "StreamConfigRequest")
    pedantic = members.pop("pedantic", False)
    return StreamConfig(**members), pedantic


def encode_config(config: StreamConfig) -> bytes:
    """Return the config as JSON that `decode_config` reads back."""
    return msgspec.json.encode(config_json(config))


def config_json(config: StreamConfig) -> Json:
    """Return the config as nats-server shows it: some fields always, others only if they are set."""
    shown: Json = {}
    for name in StreamConfig.__struct_fields__:
        value = getattr(config, name)
        if name in _ALWAYS or value:
            shown[name] = _config_value(name, value)
    if config.placement is not None:
        shown["placement"] = _only_set(config.placement)
    if config.persist_mode is PersistMode.DEFAULT:
        del shown["persist_mode"]
    return shown


def _config_value(name: str, value: Any) -> Any:
    match value:
        case StreamSource():
            return source_json(value)
        case TransformConfig():
            return _transform_json(value)
        case RePublish():
            return {"dest": value.dest} | _only_set(value)
        case ConsumerLimits():
            return _only_set(value)
        case tuple() if name == "sources":
            return [source_json(source) for source in value]
        case dict():
            return dict(sorted(value.items()))
    return value


def source_json(source: StreamSource) -> Json:
    """Return a declared source or mirror as nats-server shows it."""
    shown: Json = {"name": source.name}
    if source.opt_start_seq:
        shown["opt_start_seq"] = source.opt_start_seq
    if source.opt_start_time is not None:
        shown["opt_start_time"] = times.format_time(source.opt_start_time)
    if source.filter_subject:
        shown["filter_subject"] = source.filter_subject
    if source.subject_transforms:
        shown["subject_transforms"] = [_transform_json(t) for t in source.subject_transforms]
    if source.external is not None:
        shown["external"] = _external_json(source.external)
    if source.consumer is not None:
        shown["consumer"] = _only_set(source.consumer)
    return shown


def state_json(state: StreamState) -> Json:
    """Return the state as nats-server shows it."""
    shown: Json = {
        "messages": state.messages,
        "bytes": state.bytes,
        "first_seq": state.first_seq,
        "first_ts": _time_or_zero(state.first_ts),
        "last_seq": state.last_seq,
        "last_ts": _time_or_zero(state.last_ts),
    }
    if state.num_subjects:
        shown["num_subjects"] = state.num_subjects
    if state.subjects:
        shown["subjects"] = dict(state.subjects)
    if state.num_deleted:
        shown["num_deleted"] = state.num_deleted
    if state.deleted:
        shown["deleted"] = state.deleted
    if state.lost is not None:
        shown["lost"] = {"msgs": state.lost.msgs, "bytes": state.lost.bytes}
    shown["consumer_count"] = state.consumer_count
    return shown


def source_info_json(info: StreamSourceInfo, *, progress: bool = False) -> Json:
    """Return the state of a source or mirror as nats-server shows it; with `progress`, also its progress."""
    shown: Json = {"name": info.name}
    if info.external is not None:
        shown["external"] = _external_json(info.external)
    shown["lag"] = info.lag
    if info.seq:
        shown["seq"] = info.seq
    shown["active"] = info.active_ns
    if info.error is not None:
        shown["error"] = error_json(info.error)
    if info.filter_subject:
        shown["filter_subject"] = info.filter_subject
    if info.subject_transforms:
        shown["subject_transforms"] = [_transform_json(t) for t in info.subject_transforms]
    if progress and info.progress is not None:
        shown[EXTENSION] = progress_json(info.progress)
    return shown


def error_json(error: ApiError) -> Json:
    """Return the error as a client sees it."""
    return {"code": error.code, "err_code": error.err_code, "description": error.description}


def _time_or_zero(ns: int) -> str:
    return times.format_time(ns) if ns else times.ZERO_TIME


def _transform_json(transform: TransformConfig) -> Json:
    return {"src": transform.src, "dest": transform.dest}


def _external_json(external: External) -> Json:
    return {"api": external.api, "deliver": external.deliver}


def _only_set(value: msgspec.Struct) -> Json:
    """Return the fields that are set."""
    return {name: v for name in value.__struct_fields__ if (v := getattr(value, name))}
