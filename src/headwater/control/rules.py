"""Which streams may be declared: a config checked and completed like nats-server, in the same order.

Create: name → sealed, mirror direct → account → the config by itself → idempotency → space → filters →
overlap. Update: the config by itself → name → the stream must exist → unchangeable fields → space → consumers
→ overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from headwater.control.account import NO_LIMITS, AccountLimits
from headwater.control.subject_rules import (
    check_overlap,
    check_republish,
    check_subjects,
    check_transform,
    complete_republish,
)
from headwater.control.upstream_rules import check_filters, check_upstreams
from headwater.errors import ApiError, api_error
from headwater.model import names
from headwater.model.api_level import with_required_level
from headwater.model.stream import (
    MAX_SEQUENCE,
    Discard,
    PersistMode,
    Placement,
    Retention,
    Storage,
    StreamConfig,
)
from headwater.model.times import MILLISECOND, SECOND, format_duration

MAX_REPLICAS = 5
MAX_DESCRIPTION_LENGTH = 4 * 1024
MAX_METADATA_LENGTH = 128 * 1024
DEFAULT_DUPLICATE_WINDOW = 120 * SECOND
_SHORTEST = 100 * MILLISECOND
_LIMITS = ("max_msgs", "max_msgs_per_subject", "max_bytes", "max_msg_size", "max_consumers")


class ConsumerBounds(NamedTuple):
    """Limits of a consumer that a change of the stream's consumer limits must not undercut."""

    name: str
    inactive_threshold: int
    max_ack_pending: int


def check_create(
    config: StreamConfig,
    existing: Mapping[str, StreamConfig],
    *,
    name: str | None = None,
    pedantic: bool = False,
    limits: AccountLimits = NO_LIMITS,
    max_duplicate_window: int = 0,
) -> StreamConfig:
    """Return the config to store, or raise the error that nats-server answers.

    `name` is the one of the request's subject. A stream that exists already with an identical config is no
    error: the result then equals the stored config.
    """
    if name is not None and name != config.name:
        raise api_error("stream_mismatch")
    if "\\" in config.name or "/" in config.name:
        raise api_error("stream_name_contains_path_separators")
    if config.sealed:
        raise _bad("stream configuration for create can not be sealed")
    if config.mirror_direct and config.mirror is None:
        raise _bad("stream has no mirror but does have mirror direct")
    others = {other: theirs for other, theirs in existing.items() if other != config.name}
    limits.check_count(len(others))
    config = _checked(with_required_level(config), existing, pedantic, limits, max_duplicate_window)
    limits.check_replicas(config)
    if config.name in existing:
        if config != existing[config.name]:
            raise api_error("stream_name_exist")
        return config
    limits.check_space(config, others.values())
    check_filters(config, "stream_create")
    check_overlap(config, others.values())
    return config


def check_update(
    config: StreamConfig,
    existing: Mapping[str, StreamConfig],
    *,
    name: str | None = None,
    pedantic: bool = False,
    limits: AccountLimits = NO_LIMITS,
    max_duplicate_window: int = 0,
    consumers: Iterable[ConsumerBounds] = (),
) -> StreamConfig:
    """Return the config that replaces the stored one of the same name, or raise what nats-server answers."""
    config = _checked(config, existing, pedantic, limits, max_duplicate_window)
    if name is not None and name != config.name:
        raise api_error("stream_mismatch")
    old = existing.get(config.name)
    if old is None:
        raise api_error("stream_not_found")
    config = with_required_level(config)
    limits.check_replicas(config)
    _check_change(old, config)
    if config.sealed:
        config = replace(
            config, max_age=0, discard=Discard.NEW, deny_delete=True, deny_purge=True, allow_rollup_hdrs=False
        )
    others = [theirs for other, theirs in existing.items() if other != config.name]
    limits.check_space(config, others)
    _check_consumers(old, config, consumers)
    check_filters(config, "stream_update")
    check_overlap(config, others)
    return complete_republish(config)


def normalise(config: StreamConfig, max_duplicate_window: int = 0) -> StreamConfig:
    """Return the config with missing limits set to -1 and the other defaults filled in."""
    filled = {field: -1 for field in _LIMITS if (value := getattr(config, field)) == 0 or value < -1}
    if config.num_replicas == 0:
        filled["num_replicas"] = 1
    if config.duplicate_window == 0 and config.mirror is None and not config.sources:
        filled["duplicate_window"] = min(_default_windows(config, max_duplicate_window))
    return replace(config, **filled) if filled else config


def _default_windows(config: StreamConfig, max_duplicate_window: int) -> list[int]:
    """Return the bounds of the duplicate window if none is requested."""
    bounds = (DEFAULT_DUPLICATE_WINDOW, max_duplicate_window, config.max_age)
    return [bound for bound in bounds if bound > 0]


def _checked(
    config: StreamConfig,
    existing: Mapping[str, StreamConfig],
    pedantic: bool,
    limits: AccountLimits,
    max_duplicate_window: int,
) -> StreamConfig:
    """Return the completed config, once all checks for any config have passed."""
    _check_labels(config)
    if pedantic:
        _check_nothing_filled(config, max_duplicate_window)
    config = normalise(config, max_duplicate_window)
    _check_times(config, max_duplicate_window)
    _check_flags(config, pedantic)
    config = check_upstreams(_implied(config), existing, pedantic)
    config = check_subjects(config)
    limits.check_config(config)
    check_transform(config)
    config = check_republish(config, pedantic)
    if config.placement == Placement():
        config = replace(config, placement=None)
    if config.placement is not None and config.placement.preferred:
        raise _bad("preferred server not permitted in placement")
    return config


def _check_labels(config: StreamConfig) -> None:
    if not names.valid_asset_name(config.name):
        raise _bad("stream name is required and can not contain '.', '*', '>', '\\', '/'")
    if len(config.name.encode()) > names.MAX_NAME_LENGTH:
        raise _bad(f"stream name is too long, maximum allowed is {names.MAX_NAME_LENGTH}")
    if len(config.description.encode()) > MAX_DESCRIPTION_LENGTH:
        raise _bad(f"stream description is too long, maximum allowed is {MAX_DESCRIPTION_LENGTH}")
    if sum(len(k.encode()) + len(v.encode()) for k, v in config.metadata.items()) > MAX_METADATA_LENGTH:
        raise _bad(f"stream metadata exceeds maximum size of {MAX_METADATA_LENGTH} bytes")
    if config.num_replicas > MAX_REPLICAS:
        raise _bad(f"maximum replicas is {MAX_REPLICAS}")
    if config.num_replicas < 0:
        raise api_error("replicas_count_cannot_be_negative")


def _check_nothing_filled(config: StreamConfig, max_duplicate_window: int) -> None:
    """Refuse, for a pedantic request, a limit that would be adjusted silently."""
    for field in _LIMITS:
        if getattr(config, field) < -1:
            raise api_error("pedantic", err=f"{field} must be set to -1")
    _check_max_age(config)
    if config.duplicate_window == 0 and config.mirror is None and not config.sources:
        if 0 < max_duplicate_window < DEFAULT_DUPLICATE_WINDOW:
            raise api_error("pedantic", err="duplicate window limits are higher than current limits")
        if 0 < config.max_age < DEFAULT_DUPLICATE_WINDOW:
            raise api_error("pedantic", err="duplicate window cannot be bigger than max age")


def _check_max_age(config: StreamConfig) -> None:
    if config.max_age < 0:
        raise _bad("max age can not be negative")
    if 0 < config.max_age < _SHORTEST:
        raise _bad("max age needs to be >= 100ms")


def _check_times(config: StreamConfig, max_duplicate_window: int) -> None:
    _check_max_age(config)
    window = config.duplicate_window
    if window < 0:
        raise _bad("duplicates window can not be negative")
    if 0 < config.max_age < window:
        raise _bad("duplicates window can not be larger then max age")
    if 0 < max_duplicate_window < window:
        longest = format_duration(max_duplicate_window)
        raise _bad(f"duplicates window can not be larger then server limit of {longest}")
    if 0 < window < _SHORTEST:
        raise _bad("duplicates window needs to be >= 100ms")


def _check_flags(config: StreamConfig, pedantic: bool) -> None:
    """Refuse options that exclude each other, or, for a pedantic request, that require each other."""
    discard_new = config.discard is Discard.NEW
    marker_ttl = config.subject_delete_marker_ttl
    rollup = config.allow_rollup_hdrs
    asynchronous = config.persist_mode is PersistMode.ASYNC
    counter = config.allow_msg_counter
    per_subject = config.discard_new_per_subject
    schedules = config.allow_msg_schedules
    for refused, err in (
        (config.deny_purge and rollup, "roll-ups require the purge permission"),
        (counter and discard_new, "counter stream cannot use discard new"),
        (counter and config.allow_msg_ttl, "counter stream cannot use message TTLs"),
        (counter and schedules, "counter stream cannot use message schedules"),
        (
            counter and config.retention is not Retention.LIMITS,
            "counter stream can only use limits retention",
        ),
        (
            per_subject and not discard_new,
            "discard new per subject requires discard new policy to be set",
        ),
        (
            per_subject and config.max_msgs_per_subject <= 0,
            "discard new per subject requires max msgs per subject > 0",
        ),
        (config.first_seq > MAX_SEQUENCE, f"first sequence must not be above {MAX_SEQUENCE}"),
        (0 < marker_ttl < SECOND, "subject delete marker TTL must be at least 1 second"),
        (
            pedantic and marker_ttl > 0 and not config.allow_msg_ttl,
            "subject delete marker cannot be set if message TTLs are disabled",
        ),
        (
            pedantic and marker_ttl > 0 and not rollup,
            "subject delete marker cannot be set if roll-ups are disabled",
        ),
        (marker_ttl < 0, "subject delete marker TTL must not be negative"),
        (schedules and discard_new, "message scheduling cannot use discard new"),
        (
            pedantic and schedules and not rollup,
            "message scheduling cannot be set if roll-ups are disabled",
        ),
        (
            asynchronous and config.storage is not Storage.FILE,
            "async persist mode is only supported on file storage",
        ),
        (
            asynchronous and config.num_replicas > 1,
            "async persist mode is not supported on replicated streams",
        ),
        (
            asynchronous and config.allow_atomic,
            "async persist mode is not supported with atomic batch publish",
        ),
    ):
        if refused:
            raise _bad(err)


def _implied(config: StreamConfig) -> StreamConfig:
    """Return the config with the options enabled that delete markers and schedules require."""
    if config.subject_delete_marker_ttl > 0 and not config.allow_msg_ttl:
        config = replace(config, allow_msg_ttl=True)
    if (config.subject_delete_marker_ttl > 0 or config.allow_msg_schedules) and not config.allow_rollup_hdrs:
        config = replace(config, allow_rollup_hdrs=True, deny_purge=False)
    return config


def _check_change(old: StreamConfig, new: StreamConfig) -> None:
    """Refuse changes that are not possible once a stream exists."""
    if new.storage is not old.storage:
        raise _bad("stream configuration update can not change storage type")
    if new.retention is not old.retention and Retention.WORKQUEUE in (new.retention, old.retention):
        raise _bad("stream configuration update can not change retention policy to/from workqueue")
    if old.sealed and not new.sealed:
        raise _bad("stream configuration update can not unseal a sealed stream")
    if old.deny_delete and not new.deny_delete:
        raise _bad("stream configuration update can not cancel deny message deletes")
    if old.deny_purge and not new.deny_purge:
        raise _bad("stream configuration update can not cancel deny purge")
    if new.mirror is not None and new.mirror != old.mirror:
        raise api_error("stream_mirror_not_updatable")
    if old.allow_msg_ttl and not new.allow_msg_ttl:
        raise _bad("message TTL status can not be disabled")
    if new.allow_msg_counter != old.allow_msg_counter:
        raise _bad("stream configuration update can not change message counter setting")
    if old.allow_msg_schedules and not new.allow_msg_schedules:
        raise _bad("message schedules can not be disabled")
    if new.persist_mode is not old.persist_mode:
        raise _bad("stream configuration update can not change persist mode")


def _check_consumers(old: StreamConfig, new: StreamConfig, consumers: Iterable[ConsumerBounds]) -> None:
    """Refuse consumer limits that a consumer of the stream already exceeds."""
    inactive, pending = new.consumer_limits.inactive_threshold, new.consumer_limits.max_ack_pending
    inactive_changes = 0 < inactive != old.consumer_limits.inactive_threshold
    pending_changes = 0 < pending != old.consumer_limits.max_ack_pending
    if not inactive_changes and not pending_changes:
        return
    beyond = [
        consumer.name
        for consumer in consumers
        if 0 < inactive < consumer.inactive_threshold or 0 < pending < consumer.max_ack_pending
    ]
    if beyond:
        raise api_error("stream_update", err=f"change to limits violates consumers: {', '.join(beyond)}")


def _bad(err: str) -> ApiError:
    return api_error("bad_config", err=err)
