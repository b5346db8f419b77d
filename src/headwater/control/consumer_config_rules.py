"""A consumer's config by itself: completed with defaults and checked against its stream like nats-server."""

from __future__ import annotations

import re

from msgspec.structs import replace

from headwater.control.account import AccountLimits
from headwater.control.subject_rules import LONGEST, is_internal
from headwater.errors import ApiError, api_error
from headwater.model import names
from headwater.model.consumer import AckPolicy, ConsumerConfig, DeliverPolicy, PriorityPolicy
from headwater.model.nested_subjects import NestedSubjects
from headwater.model.stream import Retention, StreamConfig
from headwater.model.subject import is_literal, is_subset, valid_subject
from headwater.model.times import MILLISECOND, SECOND, format_duration

DEFAULT_ACK_WAIT = 30 * SECOND
DEFAULT_MAX_ACK_PENDING = 1000
DEFAULT_MAX_WAITING = 512
DEFAULT_INACTIVE_THRESHOLD = 5 * SECOND
DEFAULT_PIN_TIMEOUT = 120 * SECOND
FLOW_CONTROL_HEARTBEAT = SECOND
MAX_DESCRIPTION_LENGTH = 4 * 1024
MAX_METADATA_LENGTH = 128 * 1024
_MOST_DIGITS = 20
"""Of a number with a sign below 2^63."""

_LEAST = {
    "max_deliver": -1,
    "max_waiting": 0,
    "max_ack_pending": -1,
    "max_batch": 0,
    "max_expires": 0,
    "max_bytes": 0,
    "idle_heartbeat": 0,
    "inactive_threshold": 0,
    "priority_timeout": 0,
}
_GROUP = re.compile(r"[a-zA-Z0-9/_=-]{1,16}")
_START_WORDS = {
    DeliverPolicy.ALL: "all",
    DeliverPolicy.LAST: "last",
    DeliverPolicy.LAST_PER_SUBJECT: "last per subject",
    DeliverPolicy.NEW: "new",
}


def complete(
    config: ConsumerConfig, stream: StreamConfig, limits: AccountLimits, pedantic: bool
) -> ConsumerConfig:
    """Return the config with defaults for missing fields; a pedantic request is refused instead."""
    config = _raised(config, pedantic)
    filled: dict[str, object] = {}
    if config.max_deliver == 0:
        filled["max_deliver"] = -1
    if not config.is_push and config.max_waiting == 0:
        filled["max_waiting"] = DEFAULT_MAX_WAITING
    if config.ack_wait == 0 and config.ack_policy in (AckPolicy.EXPLICIT, AckPolicy.ALL):
        filled["ack_wait"] = DEFAULT_ACK_WAIT
    if config.backoff:
        if pedantic and filled.get("ack_wait", config.ack_wait) != config.backoff[0]:
            raise api_error("pedantic", err="first backoff value has to equal batch AckWait")
        filled["ack_wait"] = config.backoff[0]
    for field in ("max_ack_pending", "inactive_threshold"):
        from_stream = getattr(stream.consumer_limits, field)
        if getattr(config, field) == 0 and from_stream > 0:
            if pedantic:
                raise api_error("pedantic", err=f"{field} must be set if it's configured in stream limits")
            filled[field] = from_stream
    if filled.get("max_ack_pending", config.max_ack_pending) == 0 and config.ack_policy is not AckPolicy.NONE:
        bounds = [DEFAULT_MAX_ACK_PENDING, limits.max_ack_pending]
        filled["max_ack_pending"] = min(bound for bound in bounds if bound > 0)
    if config.priority_policy is PriorityPolicy.PINNED_CLIENT and config.priority_timeout == 0:
        filled["priority_timeout"] = DEFAULT_PIN_TIMEOUT
    if config.ack_policy is AckPolicy.FLOW_CONTROL and not pedantic:
        filled |= {"flow_control": True, "idle_heartbeat": FLOW_CONTROL_HEARTBEAT}
    return replace(config, **filled)


def _raised(config: ConsumerConfig, pedantic: bool) -> ConsumerConfig:
    """Return the config with no number below its least valid value."""
    raised = {field: least for field, least in _LEAST.items() if getattr(config, field) < least}
    if pedantic and raised:
        field, least = next(iter(raised.items()))
        raise api_error("pedantic", err=f"{field} must {'be set to -1' if least else 'not be negative'}")
    return replace(config, **raised)


def check_config(config: ConsumerConfig, stream: StreamConfig, limits: AccountLimits) -> None:
    """Refuse a completed config that is invalid, by itself or for this stream."""
    _check_names(config)
    _check_replicas(config, stream)
    _check_ack(config)
    if len(config.description.encode()) > MAX_DESCRIPTION_LENGTH:
        raise api_error("consumer_description_too_long", max=MAX_DESCRIPTION_LENGTH)
    if config.is_push:
        _check_push(config, stream)
    else:
        _check_pull(config, stream)
    _check_limits(config, stream, limits)
    if config.direct and not config.is_push:
        raise api_error("consumer_direct_requires_push")
    if config.direct and config.is_durable:
        raise api_error("consumer_direct_requires_ephemeral")
    _check_filters(config)
    _check_start(config)
    _check_sampling(config)
    if config.flow_control and config.idle_heartbeat == 0:
        raise api_error("consumer_with_flow_control_needs_heartbeats")
    if config.durable_name and config.name and config.name != config.durable_name:
        raise api_error("consumer_create_durable_and_name_mismatch")
    if sum(len(k.encode()) + len(v.encode()) for k, v in config.metadata.items()) > MAX_METADATA_LENGTH:
        raise api_error("consumer_metadata_length", limit=f"{MAX_METADATA_LENGTH // 1024}KB")
    _check_priority(config)


def _check_names(config: ConsumerConfig) -> None:
    for what, name in (("", config.name), ("durable ", config.durable_name)):
        if name and not names.valid_asset_name(name):
            raise _bad(f"consumer {what}name can not contain '.', '*', '>', '\\', '/'")


def _check_replicas(config: ConsumerConfig, stream: StreamConfig) -> None:
    if config.num_replicas > stream.num_replicas:
        raise api_error("consumer_replicas_exceeds_stream")
    if config.num_replicas < 0:
        raise api_error("replicas_count_cannot_be_negative")
    kept_for_consumers = stream.retention is not Retention.LIMITS
    if kept_for_consumers and config.num_replicas not in (0, stream.num_replicas):
        raise api_error("consumer_replicas_should_match_stream")


def _check_ack(config: ConsumerConfig) -> None:
    if any(wait < 0 for wait in config.backoff):
        raise api_error("consumer_back_off_negative")
    if config.ack_wait < 0:
        raise api_error("consumer_ack_wait_negative")
    if config.ack_policy is AckPolicy.FLOW_CONTROL:
        _check_ack_by_flow_control(config)
    if config.backoff and config.max_deliver != -1 and len(config.backoff) > config.max_deliver:
        raise api_error("consumer_max_deliver_backoff")


def _check_ack_by_flow_control(config: ConsumerConfig) -> None:
    if not config.is_push:
        raise api_error("consumer_ack_fc_requires_push")
    if not config.flow_control:
        raise api_error("consumer_ack_fc_requires_fc")
    if config.idle_heartbeat != FLOW_CONTROL_HEARTBEAT:
        raise _bad("flow control ack policy heartbeat needs to be 1s")
    if config.max_ack_pending <= 0:
        raise api_error("consumer_ack_fc_requires_max_ack_pending")
    if config.ack_wait != 0 or config.backoff:
        raise api_error("consumer_ack_fc_requires_no_ack_wait")
    if config.max_deliver > 0:
        raise api_error("consumer_ack_fc_requires_no_max_deliver")


def _check_push(config: ConsumerConfig, stream: StreamConfig) -> None:
    if not is_literal(config.deliver_subject):
        raise api_error("consumer_deliver_to_wildcards")
    deliverable = valid_subject(config.deliver_subject) and len(config.deliver_subject.encode()) <= LONGEST
    if not deliverable or is_internal(config.deliver_subject):
        raise api_error("consumer_invalid_deliver_subject")
    if any(is_subset(config.deliver_subject, subject) for subject in stream.subjects):
        raise api_error("consumer_deliver_cycle")
    if config.max_waiting != 0:
        raise api_error("consumer_push_max_waiting")
    if config.max_ack_pending > 0 and config.ack_policy is AckPolicy.NONE:
        raise api_error("consumer_max_pending_ack_policy_required")
    if 0 < config.idle_heartbeat < 100 * MILLISECOND:
        raise api_error("consumer_small_heartbeat")


def _check_pull(config: ConsumerConfig, stream: StreamConfig) -> None:
    if config.ack_policy is AckPolicy.NONE and stream.retention is Retention.WORKQUEUE:
        raise api_error("consumer_pull_requires_ack")
    if config.rate_limit_bps > 0:
        raise api_error("consumer_pull_with_rate_limit")
    if config.idle_heartbeat > 0:
        raise api_error("consumer_hb_requires_push")
    if config.flow_control:
        raise api_error("consumer_fc_requires_push")
    if 0 < config.max_expires < MILLISECOND:
        raise api_error("consumer_max_request_expires_too_small")


def _check_limits(config: ConsumerConfig, stream: StreamConfig, limits: AccountLimits) -> None:
    for most in (limits.max_ack_pending, stream.consumer_limits.max_ack_pending):
        if 0 < most < config.max_ack_pending:
            raise api_error("consumer_max_pending_ack_excess", limit=most)
    longest = stream.consumer_limits.inactive_threshold
    if 0 < longest < config.inactive_threshold:
        raise api_error("consumer_inactive_threshold_excess", limit=format_duration(longest))


def _check_filters(config: ConsumerConfig) -> None:
    if config.filter_subject and config.filter_subjects:
        raise api_error("consumer_duplicate_filter_subjects")
    if config.filter_subject and not valid_subject(config.filter_subject):
        raise _bad("invalid subject")
    if "" in config.filter_subjects:
        raise api_error("consumer_empty_filter")
    nested = NestedSubjects(config.filters)
    for index, subject in enumerate(config.filters):
        if not valid_subject(subject):
            raise _bad("invalid subject")
        if nested.is_inside_another(index):
            raise api_error("consumer_overlapping_subject_filters")


def _check_start(config: ConsumerConfig) -> None:
    """Refuse a start option that the deliver policy does not use, or the lack of one that it needs."""
    policy = config.deliver_policy
    sequence, time = config.opt_start_seq > 0, config.opt_start_time is not None
    if policy is DeliverPolicy.BY_START_SEQUENCE:
        if not sequence:
            raise _start("by start sequence", "optional start sequence is not set")
        if time:
            raise _start("by start sequence", "optional start time is also set")
    elif policy is DeliverPolicy.BY_START_TIME:
        if not time:
            raise _start("by start time", "optional start time is not set")
        if sequence:
            raise _start("by start time", "optional start start sequence is also set")
    else:
        words = _START_WORDS[policy]
        if sequence:
            raise _start(words, "optional start sequence is also set")
        if time:
            raise _start(words, "optional start time is also set")
        if policy is DeliverPolicy.LAST_PER_SUBJECT and not config.filters:
            raise _start(words, "optional filter subject is not set")


def _start(policy: str, complaint: str) -> ApiError:
    err = f"consumer delivery policy is deliver {policy}, but {complaint}"
    return api_error("consumer_invalid_policy", err=err)


def _check_sampling(config: ConsumerConfig) -> None:
    if not config.sample_freq:
        return
    percent = config.sample_freq.removesuffix("%")
    if re.fullmatch(r"[+-]?[0-9]+", percent, re.ASCII) is None:
        raise api_error("consumer_invalid_sampling", err=f'strconv.Atoi: parsing "{percent}": invalid syntax')
    # Python refuses to read a number with thousands of digits.
    if len(percent) > _MOST_DIGITS or abs(int(percent)) >= 2**63:
        raise api_error(
            "consumer_invalid_sampling", err=f'strconv.Atoi: parsing "{percent}": value out of range'
        )
    if int(percent) < 0:
        raise api_error("consumer_invalid_sampling", err="<nil>")


def _check_priority(config: ConsumerConfig) -> None:
    if config.priority_policy is PriorityPolicy.NONE:
        if config.priority_groups:
            raise api_error("consumer_priority_group_with_policy_none")
        if config.priority_timeout > 0:
            raise api_error("consumer_pinned_ttl_without_priority_policy_none")
        return
    if config.is_push:
        raise api_error("consumer_push_with_priority_group")
    if not config.priority_groups:
        raise api_error("consumer_priority_policy_without_group")
    for group in config.priority_groups:
        if not group:
            raise api_error("consumer_empty_group_name")
        if _GROUP.fullmatch(group) is None:
            raise api_error("consumer_invalid_group_name")


def _bad(err: str) -> ApiError:
    return api_error("bad_config", err=err)
