"""A consumer: its config, its info, and pull requests."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec


class DeliverPolicy(StrEnum):
    """Where in the stream a consumer begins."""

    ALL = "all"
    LAST = "last"
    NEW = "new"
    BY_START_SEQUENCE = "by_start_sequence"
    BY_START_TIME = "by_start_time"
    LAST_PER_SUBJECT = "last_per_subject"


class AckPolicy(StrEnum):
    """What settles a delivered message."""

    NONE = "none"
    ALL = "all"
    EXPLICIT = "explicit"
    FLOW_CONTROL = "flow_control"


class ReplayPolicy(StrEnum):
    """How fast stored messages are delivered."""

    INSTANT = "instant"
    ORIGINAL = "original"


class PriorityPolicy(StrEnum):
    """Which of the waiting clients gets the next message."""

    NONE = "none"
    OVERFLOW = "overflow"
    PINNED_CLIENT = "pinned_client"
    PRIORITIZED = "prioritized"


class Action(StrEnum):
    """What a create request may do: create, update, or both."""

    CREATE_OR_UPDATE = ""
    CREATE = "create"
    UPDATE = "update"


class ConsumerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A declared consumer with its wire field names; durations in nanoseconds, 0 if unset."""

    durable_name: str = ""
    name: str = ""
    description: str = ""
    deliver_policy: DeliverPolicy = DeliverPolicy.ALL
    opt_start_seq: int = 0
    opt_start_time: int | None = None
    ack_policy: AckPolicy = AckPolicy.NONE
    ack_wait: int = 0
    max_deliver: int = 0
    backoff: tuple[int, ...] = ()
    filter_subject: str = ""
    filter_subjects: tuple[str, ...] = ()
    replay_policy: ReplayPolicy = ReplayPolicy.INSTANT
    rate_limit_bps: int = 0
    sample_freq: str = ""
    max_waiting: int = 0
    max_ack_pending: int = 0
    flow_control: bool = False
    headers_only: bool = False
    max_batch: int = 0
    max_expires: int = 0
    max_bytes: int = 0
    deliver_subject: str = ""
    deliver_group: str = ""
    idle_heartbeat: int = 0
    inactive_threshold: int = 0
    num_replicas: int = 0
    mem_storage: bool = False
    direct: bool = False
    sourcing: bool = False
    metadata: Mapping[str, str] = msgspec.field(default_factory=dict)
    pause_until: int | None = None
    priority_groups: tuple[str, ...] = ()
    priority_policy: PriorityPolicy = PriorityPolicy.NONE
    priority_timeout: int = 0

    @property
    def is_push(self) -> bool:
        """Return whether messages are pushed to a deliver subject instead of pulled."""
        return bool(self.deliver_subject)

    @property
    def is_durable(self) -> bool:
        """Return whether the consumer stays when it is inactive."""
        return bool(self.durable_name)

    @property
    def is_recorded(self) -> bool:
        """Return whether the consumer's state survives a restart."""
        return not self.mem_storage and not self.direct

    @property
    def settles_single(self) -> bool:
        """Return whether an ack settles one message, not all up to it."""
        return self.ack_policy is AckPolicy.EXPLICIT

    @property
    def acks_at_delivery(self) -> bool:
        """Return whether a message counts as settled when it is sent."""
        return self.ack_policy is AckPolicy.NONE

    @property
    def sample_percent(self) -> int:
        """Return the percentage of acks whose time is reported."""
        text = self.sample_freq.removesuffix("%")
        return int(text) if text.isdigit() else 0

    @property
    def filters(self) -> tuple[str, ...]:
        """Return the filter subjects; empty means all."""
        return (self.filter_subject,) if self.filter_subject else self.filter_subjects


class CreateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a request to create or update a consumer."""

    stream_name: str = ""
    config: ConsumerConfig = ConsumerConfig()
    action: Action = Action.CREATE_OR_UPDATE
    pedantic: bool = False


class SequenceInfo(msgspec.Struct, frozen=True):
    """A position in both sequences, and when it last moved (0 for never)."""

    consumer_seq: int = 0
    stream_seq: int = 0
    last_active: int = 0

    def shifted(self, nanoseconds: int) -> SequenceInfo:
        """Return the same with its time shifted to another clock."""
        if not nanoseconds or not self.last_active:
            return self
        return SequenceInfo(self.consumer_seq, self.stream_seq, self.last_active + nanoseconds)


class PriorityGroupState(msgspec.Struct, frozen=True):
    """Which client a priority group is pinned to."""

    group: str
    pinned_client_id: str = ""
    pinned_ts: int = 0


class ConsumerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer's info; times in nanoseconds since the epoch."""

    stream_name: str
    name: str
    created: int
    config: ConsumerConfig
    delivered: SequenceInfo = SequenceInfo()
    ack_floor: SequenceInfo = SequenceInfo()
    num_ack_pending: int = 0
    num_redelivered: int = 0
    num_waiting: int = 0
    num_pending: int = 0
    push_bound: bool = False
    paused: bool = False
    pause_remaining: int = 0
    ts: int = 0
    priority_groups: tuple[PriorityGroupState, ...] = ()

    def with_groups(self, groups: tuple[PriorityGroupState, ...]) -> ConsumerInfo:
        """Return the info with the state of the priority groups."""
        return msgspec.structs.replace(self, priority_groups=groups)


class PullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A pull request; durations in nanoseconds, 0 if unset."""

    batch: int = 1
    expires: int = 0
    max_bytes: int = 0
    no_wait: bool = False
    idle_heartbeat: int = 0
    group: str = ""
    min_pending: int = 0
    min_ack_pending: int = 0
    id: str = ""
    priority: int = 0
    formal: bool = False
    """Whether it was sent as a JSON object: only then its group is checked."""
