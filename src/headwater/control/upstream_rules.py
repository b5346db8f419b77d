"""Which upstreams a stream may have: its mirror, its sources, and the cycles they must not form."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping

from msgspec.structs import replace

from headwater.control.pipeline_rules import check_pipelines
from headwater.errors import ApiError, api_error
from headwater.model.names import valid_asset_name, valid_stream_name
from headwater.model.stream import StreamConfig
from headwater.model.subject import collides, is_subset, valid_literal, valid_subject
from headwater.model.transform import TransformError, check_mapping
from headwater.model.upstream import StreamSource

API_PREFIX = "$JS.API"
LONGEST_PREFIX = 1024
_OTHERS = ("$SYS", "$HEADWATER", "_INBOX", "_R_")
_SHOWN = 100


def check_upstreams(
    config: StreamConfig, existing: Mapping[str, StreamConfig], pedantic: bool
) -> StreamConfig:
    """Return the config with `mirror_direct` taken from a visible origin; refuse invalid upstreams."""
    if config.mirror is not None:
        config = _check_mirror(config, config.mirror, existing, pedantic)
    if config.sources and config.allow_msg_schedules:
        raise api_error("source_with_msg_schedules")
    index_names: set[str] = set()
    consumer_names: set[str] = set()
    for source in config.sources:
        _check_source(config, source, existing, index_names, consumer_names)
    upstreams = ([config.mirror] if config.mirror is not None else []) + list(config.sources)
    _check_prefixes(upstreams, existing)
    _check_cycle(config, existing)
    check_pipelines(config, existing)
    return config


def check_filters(config: StreamConfig, wrapper: str) -> None:
    """Refuse a filter that can never match; nats-server checks that on create only, at this point."""
    mirror = config.mirror
    if mirror is not None and mirror.filter_subject and not valid_subject(mirror.filter_subject):
        err = f"subject filter '{mirror.filter_subject}' for the mirror invalid subject"
        raise api_error(wrapper, err=err)
    for source in config.sources:
        if source.filter_subject and not valid_subject(source.filter_subject):
            err = f"subject filter '{source.filter_subject}' for the source: invalid subject"
            raise api_error(wrapper, err=err)


def _check_mirror(
    config: StreamConfig, mirror: StreamSource, existing: Mapping[str, StreamConfig], pedantic: bool
) -> StreamConfig:
    for refused, name in (
        (config.first_seq > 0, "mirror_with_first_seq"),
        (config.subjects, "mirror_with_subjects"),
        (config.sources, "mirror_with_sources"),
        (config.allow_msg_counter, "mirror_with_counters"),
        (config.allow_atomic, "mirror_with_atomic_publish"),
        (config.allow_batched, "mirror_with_batch_publish"),
        (config.allow_msg_schedules, "mirror_with_msg_schedules"),
        (not _consumer_fits(mirror), "mirror_durable_consumer_cfg_invalid"),
        (mirror.filter_subject and mirror.subject_transforms, "mirror_multiple_filters_not_allowed"),
    ):
        if refused:
            raise api_error(name)
    if config.subject_delete_marker_ttl > 0:
        # A marker would take a sequence of its own, and the mirror would differ from its origin.
        raise _bad("subject delete markers forbidden on mirrors")
    _check_mirror_transforms(mirror)
    if mirror.external is not None:
        # nats-server does not check this name. We do only if it cannot be part of a subject.
        if not valid_literal(mirror.name) or _is_hostile(mirror.name):
            raise api_error("mirror_invalid_stream_name")
        return config
    if not _names_a_stream(mirror.name):
        raise api_error("mirror_invalid_stream_name")
    origin = existing.get(mirror.name)
    if origin is None:
        return config
    if _takes_less(config, origin):
        raise api_error("mirror_max_message_size_too_big")
    if pedantic and config.mirror_direct != origin.allow_direct:
        raise api_error("pedantic", err="origin stream has direct get set, mirror has it disabled")
    return replace(config, mirror_direct=origin.allow_direct)


def _check_mirror_transforms(mirror: StreamSource) -> None:
    for index, transform in enumerate(mirror.subject_transforms):
        if transform.src and not valid_subject(transform.src):
            raise api_error("mirror_invalid_subject_filter", err=f"invalid subject {transform.src}")
        try:
            check_mapping(transform.src, transform.dest)
        except TransformError as error:
            raise api_error("mirror_invalid_transform_destination", err=error) from None
        others = mirror.subject_transforms[:index] + mirror.subject_transforms[index + 1 :]
        if any(collides(transform.src, other.src) for other in others):
            raise api_error("mirror_overlapping_subject_filters")


def _check_source(
    config: StreamConfig,
    source: StreamSource,
    existing: Mapping[str, StreamConfig],
    index_names: set[str],
    consumer_names: set[str],
) -> None:
    """Refuse a source that is invalid next to those whose names are in the sets; add its own names."""
    if not _names_a_stream(source.name):
        raise api_error("source_invalid_stream_name")
    if source.index_name in index_names:
        raise api_error("source_duplicate_detected")
    index_names.add(source.index_name)
    if source.filter_subject and source.subject_transforms:
        raise api_error("source_multiple_filters_not_allowed")
    _check_source_transforms(source)
    if not _consumer_fits(source):
        raise api_error("source_durable_consumer_cfg_invalid")
    if source.consumer is not None:
        consumer_name = f"{source.origin_name} {source.consumer.name}"
        if consumer_name in consumer_names:
            raise api_error("source_durable_consumer_duplicate_detected")
        consumer_names.add(consumer_name)
    origin = existing.get(source.name)
    if source.external is None and origin is not None and _takes_less(config, origin):
        raise api_error("source_max_message_size_too_big")


def _check_source_transforms(source: StreamSource) -> None:
    transforms = source.subject_transforms
    for transform in transforms:
        if transform.src and not valid_subject(transform.src):
            raise api_error("source_invalid_subject_filter", err=f"invalid subject {transform.src}")
        try:
            check_mapping(transform.src, transform.dest)
        except TransformError as error:
            raise api_error("source_invalid_transform_destination", err=error) from None
    for index, transform in enumerate(transforms):
        others = transforms[:index] + transforms[index + 1 :]
        if any(is_subset(transform.src, other.src) for other in others):
            raise api_error("source_overlapping_subject_filters")


def _consumer_fits(source: StreamSource) -> bool:
    """Return whether the named consumer, if any, is usable and has no redundant options."""
    consumer = source.consumer
    if consumer is None:
        return True
    starts = bool(source.opt_start_seq) or source.opt_start_time is not None
    named = valid_asset_name(consumer.name) and valid_literal(consumer.deliver_subject)
    return named and not starts and not source.filter_subject


def _takes_less(config: StreamConfig, origin: StreamConfig) -> bool:
    """Return whether a message of the origin may be too large for this stream."""
    return 0 < config.max_msg_size < origin.max_msg_size


def _check_prefixes(upstreams: list[StreamSource], existing: Mapping[str, StreamConfig]) -> None:
    """Refuse external prefixes that are invalid subjects, or that lead back to this account."""
    origins = [existing.get(upstream.name) for upstream in upstreams if upstream.external is None]
    subjects = [subject for origin in origins if origin is not None for subject in origin.subjects]
    externals = [upstream.external for upstream in upstreams if upstream.external is not None]
    for prefix in (external.deliver for external in externals if external.deliver):
        if not valid_literal(prefix) or _is_hostile(prefix):
            raise api_error("stream_invalid_external_delivery_subj", prefix=_shortened(prefix))
        for subject in subjects:
            if collides(subject, f"{prefix}.{subject}"):
                raise api_error("stream_external_del_prefix_overlaps", prefix=prefix, subject=subject)
    for prefix in (external.api for external in externals if external.api):
        if not valid_literal(prefix) or _is_hostile(prefix):
            shown = json.dumps(_shortened(prefix), ensure_ascii=False)
            raise _bad(f"stream external api prefix {shown} must be a valid subject without wildcards")
        if collides(prefix, API_PREFIX):
            raise api_error("stream_external_api_overlap", prefix=prefix, subject=API_PREFIX)


def _names_a_stream(name: str) -> bool:
    """Return whether an origin can have this name, which is part of subjects that we publish to."""
    return valid_stream_name(name) and name.isprintable()


def _is_hostile(prefix: str) -> bool:
    """Return whether a prefix would have us publish where no origin is, or lines that are too long."""
    space = prefix.split(".", 1)[0]
    return len(prefix.encode()) > LONGEST_PREFIX or not prefix.isprintable() or space in _OTHERS


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _check_cycle(config: StreamConfig, existing: Mapping[str, StreamConfig]) -> None:
    """Refuse a stream that would receive its own messages, as far as this account can see.

    As in nats-server any stream that is visited twice counts, unless the filter of the edge selects none of
    the subjects of the stream that the edge feeds.
    """
    to_visit = deque([config])
    visited: set[str] = set()
    while to_visit:
        node = to_visit.popleft()
        if node.name in visited:
            continue
        visited.add(node.name)
        for source in node.sources:
            if source.external is not None:
                continue
            if source.name in visited:
                if _feeds(source.filter_subject, node.subjects):
                    raise _bad("detected cycle")
            elif source.name in existing:
                to_visit.append(existing[source.name])
        if node.mirror is not None and node.mirror.external is None:
            if node.mirror.name in visited:
                raise _bad("detected cycle")
            if node.mirror.name in existing:
                to_visit.append(existing[node.mirror.name])


def _feeds(filter_subject: str, subjects: tuple[str, ...]) -> bool:
    return not filter_subject or any(collides(subject, filter_subject) for subject in subjects)


def _bad(err: str) -> ApiError:
    return api_error("bad_config", err=err)
