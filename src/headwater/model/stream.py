"""A stream: its config and its state."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from headwater.model.upstream import StreamSource, TransformConfig

MAX_SEQUENCE = 2**62
"""The largest first sequence that a client may request: tables store signed 64-bit integers."""


class Retention(StrEnum):
    """How long a message stays."""

    LIMITS = "limits"
    INTEREST = "interest"
    WORKQUEUE = "workqueue"


class Discard(StrEnum):
    """Which message is discarded at a limit."""

    OLD = "old"
    NEW = "new"


class Storage(StrEnum):
    """Where messages are stored."""

    FILE = "file"
    MEMORY = "memory"


class Compression(StrEnum):
    """How messages are compressed."""

    NONE = "none"
    S2 = "s2"


class PersistMode(StrEnum):
    """Whether a publish is acknowledged before it is on disk."""

    DEFAULT = "default"
    ASYNC = "async"


class Placement(msgspec.Struct, frozen=True):
    """Where in a cluster a stream should be placed."""

    cluster: str = ""
    tags: tuple[str, ...] = ()
    preferred: str = ""


class RePublish(msgspec.Struct, frozen=True):
    """To which subjects stored messages are republished."""

    src: str = ""
    dest: str = ""
    headers_only: bool = False


class ConsumerLimits(msgspec.Struct, frozen=True):
    """Defaults and maxima for the consumers of a stream."""

    inactive_threshold: int = 0
    max_ack_pending: int = 0


class StreamConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A declared stream with its wire field names; durations in nanoseconds, -1 for no limit."""

    name: str = ""
    description: str = ""
    subjects: tuple[str, ...] = ()
    retention: Retention = Retention.LIMITS
    max_consumers: int = -1
    max_msgs: int = -1
    max_bytes: int = -1
    max_age: int = 0
    max_msgs_per_subject: int = -1
    max_msg_size: int = -1
    discard: Discard = Discard.OLD
    storage: Storage = Storage.FILE
    num_replicas: int = 1
    no_ack: bool = False
    duplicate_window: int = 0
    placement: Placement | None = None
    mirror: StreamSource | None = None
    sources: tuple[StreamSource, ...] = ()
    compression: Compression = Compression.NONE
    first_seq: int = 0
    subject_transform: TransformConfig | None = None
    republish: RePublish | None = None
    allow_direct: bool = False
    mirror_direct: bool = False
    discard_new_per_subject: bool = False
    sealed: bool = False
    deny_delete: bool = False
    deny_purge: bool = False
    allow_rollup_hdrs: bool = False
    consumer_limits: ConsumerLimits = ConsumerLimits()
    allow_msg_ttl: bool = False
    subject_delete_marker_ttl: int = 0
    allow_msg_counter: bool = False
    allow_atomic: bool = False
    allow_msg_schedules: bool = False
    persist_mode: PersistMode = PersistMode.DEFAULT
    allow_batched: bool = False
    metadata: Mapping[str, str] = msgspec.field(default_factory=dict)


class LostMessages(msgspec.Struct, frozen=True):
    """Sequences whose stored bytes could not be read."""

    msgs: tuple[int, ...]
    bytes: int


class StreamState(msgspec.Struct, frozen=True, kw_only=True):
    """A stream's state; times in nanoseconds since the epoch, 0 without a message."""

    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    first_ts: int = 0
    last_seq: int = 0
    last_ts: int = 0
    num_subjects: int = 0
    subjects: Mapping[str, int] | None = None
    num_deleted: int = 0
    deleted: tuple[int, ...] | None = None
    lost: LostMessages | None = None
    consumer_count: int = 0
