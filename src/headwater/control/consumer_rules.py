"""Which consumers may be declared: a request checked and completed like nats-server, in the same order.

Address: stream → name → durable → filter → replicas. Then, on the stream: sourcing → existing consumer →
defaults → the config by itself → update, or: count → workqueue → name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from headwater.control.account import NO_LIMITS, AccountLimits
from headwater.control.consumer_config_rules import DEFAULT_INACTIVE_THRESHOLD, check_config, complete
from headwater.errors import ApiError, api_error
from headwater.model import names
from headwater.model.api_level import REQUIRED, required_consumer_level, stored_metadata
from headwater.model.consumer import AckPolicy, Action, ConsumerConfig, CreateRequest, DeliverPolicy
from headwater.model.stream import Retention, StreamConfig
from headwater.model.subject_set import SubjectSet
from headwater.model.unique import unique_id

_NAME_LENGTH = 8
_FIXED = {
    "deliver_policy": "deliver policy",
    "mem_storage": "storage type",
    "direct": "direct",
    "sourcing": "sourcing",
    "opt_start_seq": "start sequence",
    "opt_start_time": "start time",
    "ack_policy": "ack policy",
    "replay_policy": "replay policy",
    "idle_heartbeat": "heart beats",
    "flow_control": "flow control",
}


class CreateAddress(NamedTuple):
    """The content of the subject of a create request."""

    stream_name: str
    consumer_name: str = ""
    filter_subject: str = ""
    is_durable: bool = False
    """Whether it is the older request for durables."""


def parse_address(subject: str) -> CreateAddress:
    """Return the parsed tokens after `CONSUMER.` in the subject of a create request."""
    verb, *tokens = subject.split(".")
    if verb == "DURABLE":
        _, stream, consumer = tokens
        return CreateAddress(stream, consumer, is_durable=True)
    stream, *rest = tokens
    return CreateAddress(stream, rest[0] if rest else "", ".".join(rest[1:]))


def check_address(request: CreateRequest, address: CreateAddress, most_replicas: int = 1) -> CreateRequest:
    """Return the request with the name of its subject; refuse a request that contradicts its subject.

    More replicas than `most_replicas` are refused before the stream is looked at, as by nats-server.
    """
    config = request.config
    if address.stream_name != request.stream_name:
        raise api_error("stream_mismatch")
    name = address.consumer_name or config.name
    if "\\" in name or "/" in name:
        raise api_error("consumer_name_contains_path_separators")
    if address.is_durable and not config.durable_name:
        raise api_error("consumer_durable_name_not_set")
    if address.consumer_name:
        if config.durable_name not in ("", address.consumer_name):
            raise api_error("consumer_durable_name_not_match_subject")
        config = replace(config, name=address.consumer_name)
    elif config.durable_name:
        raise api_error("consumer_ephemeral_with_durable_name")
    if address.filter_subject and config.filter_subjects:
        raise api_error("consumer_multiple_filters_not_allowed")
    if address.filter_subject and address.filter_subject != config.filter_subject:
        raise api_error("consumer_create_filter_subject_mismatch")
    if config.num_replicas > most_replicas:
        raise api_error("stream_replicas_not_supported")
    return replace(request, config=config)


def check_create(
    request: CreateRequest,
    stream: StreamConfig,
    existing: Mapping[str, ConsumerConfig],
    *,
    limits: AccountLimits = NO_LIMITS,
    has_interest: Callable[[str], bool] = lambda subject: False,
) -> ConsumerConfig:
    """Return the config to store, or raise the error that nats-server answers.

    The request has passed `check_address`. The result has the consumer's name; if that exists already, the
    consumer is updated. `has_interest` returns whether a deliver subject has subscribers.
    """
    config = _replicating(request.config, stream)
    old = existing.get(config.name)
    if old is not None:
        config = _keeping(config, old)
    config = replace(config, metadata=stored_metadata(config.metadata, required_consumer_level(config)))
    config = complete(config, stream, limits, request.pedantic)
    check_config(config, stream, limits)
    if old is not None:
        return _updated(old, config, stream, existing, request.action, has_interest)
    if request.action is Action.UPDATE:
        raise api_error("consumer_does_not_exist")
    if not config.direct and not config.sourcing:
        _check_count(stream, existing, limits)
        _check_workqueue(config, stream, existing)
    if len(config.name.encode()) > names.MAX_NAME_LENGTH:
        raise api_error("consumer_name_too_long", max=names.MAX_NAME_LENGTH)
    if not config.name:
        config = replace(config, name=_free_name(existing))
    return _stamped(config, durable=config.is_durable)


def _replicating(config: ConsumerConfig, stream: StreamConfig) -> ConsumerConfig:
    """Return the config of a replicating consumer as it is served here; other configs are unchanged.

    On a work queue or interest stream it must be durable, and settle what the other side has stored. On other
    streams it is one of several with the same name.
    """
    if not (config.direct and config.sourcing and config.name):
        return config
    if stream.retention is Retention.LIMITS:
        return replace(config, name=f"{config.name}-{unique_id()[:_NAME_LENGTH]}")
    return replace(
        config,
        direct=False,
        durable_name=config.name,
        ack_policy=AckPolicy.FLOW_CONTROL,
        ack_wait=0,
        max_deliver=0,
        inactive_threshold=0,
    )


def _keeping(config: ConsumerConfig, old: ConsumerConfig) -> ConsumerConfig:
    """Return the config with the fields that a second create cannot change and need not repeat."""
    config = replace(config, pause_until=old.pause_until)
    if config.sourcing and config.is_durable:
        config = replace(
            config,
            deliver_policy=old.deliver_policy,
            opt_start_seq=old.opt_start_seq,
            opt_start_time=old.opt_start_time,
        )
    return config


def _updated(
    old: ConsumerConfig,
    new: ConsumerConfig,
    stream: StreamConfig,
    existing: Mapping[str, ConsumerConfig],
    action: Action,
    has_interest: Callable[[str], bool],
) -> ConsumerConfig:
    if action is Action.CREATE and replace(new, metadata={**new.metadata, **_level(old)}) != old:
        raise api_error("consumer_already_exists")
    if stream.retention is Retention.WORKQUEUE and not _is_partition(new, existing):
        raise api_error("consumer_wq_consumer_not_unique")
    if new != old:
        check_update(old, new, has_interest)
    # Whether an unused consumer is removed was decided when it was created.
    return _stamped(new, durable=old.is_durable)


def check_update(old: ConsumerConfig, new: ConsumerConfig, has_interest: Callable[[str], bool]) -> None:
    """Refuse changes that are not possible once a consumer exists."""
    for field, words in _FIXED.items():
        if getattr(old, field) != getattr(new, field):
            raise _create(f"{words} can not be updated")
    if old.deliver_subject != new.deliver_subject:
        if not old.deliver_subject:
            raise _create("can not update pull consumer to push based")
        if not new.deliver_subject:
            raise _create("can not update push consumer to pull based")
        # A replicating client subscribes to its new subject before we learn that it left the old one.
        if not new.sourcing and has_interest(old.deliver_subject):
            raise api_error("consumer_name_exist")
    if old.max_waiting != new.max_waiting:
        raise _create("max waiting can not be updated")


def _check_count(stream: StreamConfig, existing: Mapping[str, ConsumerConfig], limits: AccountLimits) -> None:
    most = stream.max_consumers
    if most <= 0 or 0 < limits.max_consumers < most:
        most = limits.max_consumers
    if 0 < most <= _counted(existing):
        raise api_error("maximum_consumers_limit")


def _check_workqueue(
    config: ConsumerConfig, stream: StreamConfig, existing: Mapping[str, ConsumerConfig]
) -> None:
    """Refuse consumers of a work queue that would get the same message, or miss one."""
    if stream.retention is not Retention.WORKQUEUE:
        return
    if config.ack_policy not in (AckPolicy.EXPLICIT, AckPolicy.FLOW_CONTROL):
        raise api_error("consumer_wq_requires_explicit_ack")
    if config.deliver_policy is not DeliverPolicy.ALL:
        raise api_error("consumer_wq_consumer_not_deliver_all")
    if _counted(existing) and not config.filters:
        raise api_error("consumer_wq_multiple_unfiltered")
    if _counted(existing) and not _is_partition(config, existing):
        raise api_error("consumer_wq_consumer_not_unique")


def _is_partition(config: ConsumerConfig, existing: Mapping[str, ConsumerConfig]) -> bool:
    """Return whether no other consumer selects a subject that this one selects."""
    name = config.durable_name or config.name
    ours = SubjectSet(config.filters)
    for other in existing.values():
        if other.name == name or other.direct or other.sourcing:
            continue
        if config.filters and not other.filters:
            return False
        if any(True for theirs in other.filters for _ in ours.colliding(theirs)):
            return False
    return True


def _counted(existing: Mapping[str, ConsumerConfig]) -> int:
    """Return how many consumers count towards limits: replicating ones do not."""
    return sum(not (config.direct or config.sourcing) for config in existing.values())


def _stamped(config: ConsumerConfig, *, durable: bool) -> ConsumerConfig:
    """Return the config with the time after which an unused ephemeral is removed."""
    if durable or config.inactive_threshold > 0:
        return config
    return replace(config, inactive_threshold=DEFAULT_INACTIVE_THRESHOLD)


def _free_name(existing: Mapping[str, ConsumerConfig]) -> str:
    while (name := unique_id()[:_NAME_LENGTH]) in existing:
        pass
    return name


def _level(config: ConsumerConfig) -> dict[str, str]:
    return {REQUIRED: config.metadata[REQUIRED]} if REQUIRED in config.metadata else {}


def _create(err: str) -> ApiError:
    return api_error("consumer_create", err=err)
