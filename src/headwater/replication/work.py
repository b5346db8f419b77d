"""The ranges that the engine hands to transfer tasks, and the receipts that tasks return."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from headwater.model.adopted import Adopted
from headwater.model.copied import Copied

T = TypeVar("T")


class FileRange(msgspec.Struct, frozen=True, array_like=True):
    """A file of the origin's table that may contain wanted rows."""

    path: str
    """Its path on the disk, or its address in the bucket."""
    base_seq: int
    first_seq: int
    last_seq: int
    copied: Copied | None = None
    """Metadata that the file lacks, if the origin hard-linked it from an origin of its own."""
    headerless: bool = False
    """Whether the table records that no message in the file has headers."""

    @property
    def exchange_bytes(self) -> int:
        """Return about how many bytes of a plan it takes, rounded up."""
        metadata = 64 + len(self.copied.source) + len(self.copied.source_id) if self.copied else 0
        return 64 + len(self.path.encode()) + metadata


class NatsOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """An origin that is read through its API."""

    api_prefix: str
    stream: str
    config: str = ""
    """The settings file with the server's address and credentials, so that a plan contains no secret."""
    seat: str = ""
    """The seat in that file, by its folder."""
    deliver: str = ""
    """Prefix of the subjects to which the origin's account delivers; empty means the task's inbox."""
    servers: tuple[str, ...] = ()
    """Used if there is no such file; the fields below then contain the credentials."""
    identity: str = ""
    """The identity of the planned stream, `hash8` of its creation time; empty accepts any."""
    user: str = ""
    password: str = ""
    token: str = ""
    nkey_file: str = ""
    creds_file: str = ""
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    max_messages: int = 5_000_000
    max_bytes: int = 1 << 30
    retention: str = "limits"
    """With another retention, messages leave the origin when they are acked on its consumer."""
    durable: str = ""
    """The name of that consumer."""
    covered_seq: int = 0
    """The last sequence that is copied already."""
    covered_ts: int = 0
    """The latest time up to there: a later message up to there was not copied. 0 if unknown."""
    stop_ts: int = 0
    """The time of the message that the range ends with; 0 if unknown."""
    rewinds: bool = False
    """Whether an earlier engine left unacknowledged deliveries, so that all must be redelivered."""


class TablesPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The bucket with the tables of an engine, to which a task connects with credentials of its own host."""

    url: str
    endpoint: str = ""
    region: str = ""
    config: str = ""
    """The settings file with the credentials, so that a plan contains no secret."""


class DeadLetters(msgspec.Struct, frozen=True, kw_only=True):
    """The stream for messages that a pipeline fails on, and how a task writes files for it."""

    stream: str
    staging: str
    compression: str = "none"


class WorkPipeline(msgspec.Struct, frozen=True, kw_only=True):
    """The Spark SQL that a range passes through."""

    where: str = ""
    select: str = ""
    fields: str = ""
    """The fields of the payload as Spark's DDL; if empty, the payload is text."""
    origin: str = ""
    """The name of the origin's stream, for dead letters."""
    most_bytes: int = 0
    """The largest message that the target takes, with its headers; 0 without a limit."""
    mirrored: bool = False
    """Whether sequences are kept, so that a message can become at most one."""
    dead: DeadLetters | None = None
    """Where failed messages go; None if the range ends before the first one."""

    @property
    def sql(self) -> tuple[str, str, str, bool]:
        """Return what its Spark job depends on."""
        return self.where, self.select, self.fields, self.mirrored


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """One range of one origin to copy for one target.

    The messages are the live rows of `files`, then those of `tail`, or what `origin` returns. All are between
    `start_seq` and `stop_seq`.
    """

    id: str
    target: str
    upstream: str
    expected: bytes
    """The target's cursor as the engine knows it; the receipt returns it."""
    start_seq: int
    stop_seq: int
    files: tuple[FileRange, ...] = ()
    read_bytes: int = 0
    """About how many bytes of them are read."""
    removed: bytes = b""
    """Serialized BitMap64 of the removed sequences in the files."""
    tail: bytes = b""
    """Messages that are not in a file yet, as `wire.column_bytes`."""
    origin: NatsOrigin | None = None
    mirrored: bool = False
    filters: tuple[str, ...] = ()
    """The wanted subjects; empty means all."""
    transforms: tuple[tuple[str, str], ...] = ()
    """The first pair that matches a subject rewrites it; if there are pairs, other subjects are dropped."""
    stream_transform: tuple[str, str] | None = None
    """The target's own subject transform, applied after that."""
    source_header: tuple[str, str, str, str] | None = None
    """For a source: first part of the index name, filters, destinations, identity of the origin."""
    staging: str = ""
    """Directory, or address in the bucket, for a result that does not fit into the receipt."""
    tables: TablesPlace | None = None
    """The bucket in which files and staging may be; older tasks do not know this field."""
    compression: str = "none"
    """How the target compresses its files."""
    linkable: bool = False
    """Whether the origin's files have the target's compression and place, so that they can be linked."""
    traceable: bool = False
    """Whether the target's table can record per file where its messages came from, and when."""
    adoptive: bool = False
    """Whether the target can adopt a staged file; a source's file is then numbered from 0."""
    adoptive_without_ids: bool = False
    """Whether it can if no message in it has a `Nats-Msg-Id`. Older tasks do not know this field."""
    pipeline: WorkPipeline | None = None
    """The SQL over the messages; only replicators that know this field are given such work."""

    @property
    def exchange_bytes(self) -> int:
        """Return about how many bytes of a plan it takes."""
        files = sum(file.exchange_bytes for file in self.files)
        sql = sum(map(len, self.pipeline.sql[:3])) if self.pipeline else 0
        return len(self.tail) + len(self.removed) + files + sql + 1000


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a range: messages, inline or in staged files, or the reason why there are none."""

    work: str
    target: str
    upstream: str
    expected: bytes
    through: int = 0
    """The origin's sequence up to which the result is complete."""
    ts: int = 0
    """The latest time of everything up to there, as reported by the origin; 0 if unknown."""
    rows: int = 0
    data: bytes = b""
    """The messages as `wire.column_bytes`, with the origin's sequences and times."""
    path: str = ""
    """Name of a staged Parquet file in the table's format with base 0, instead of `data`."""
    adopted: tuple[Adopted, ...] = ()
    """Staged files with their sums, instead of both, for a target that adopts them."""
    renumbered: bool = False
    """Whether the numbers in that file are not the origin's sequences, which are in the headers only."""
    sums: str = ""
    """Name of a staged file that contains `adopted`, if that is too long for the receipt."""
    linked_bytes: int = 0
    """The size of those of them that were hard-linked or copied by the server, not read."""
    without_ids: bool = False
    """Whether it is proven that no message of these files has a `Nats-Msg-Id`."""
    settled: bytes = b""
    """Serialized BitMap64 of the origin's sequences to acknowledge once this is committed."""
    ack_key: str = ""
    """The constant first tokens of the ack subjects."""
    error: str = ""
    read: int = -1
    """How many messages of the origin a pipeline has read for it; -1 without a pipeline."""
    stopped: str = ""
    """Why the range ends early: the first message that a pipeline without dead letters failed on."""
    dead: Receipt | None = None
    """The messages that the pipeline failed on, for the stream of dead letters."""
    errors: dict[int, str] = {}
    """Why, by the origin's sequence, as far as that is not in their headers; 0 has an example for others."""


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a replicator sends when it asks for a plan."""

    name: str
    """Its name for as long as it runs; a restarted one has another."""
    under_way: tuple[str, ...] = ()
    """Ranges that it was given and still copies."""
    slots: int = 2
    """How many of its tasks run at once."""
    task_bytes: int = 0
    """How many bytes a task may read, so that others do not wait long; 0 if unknown."""
    has_sql: bool = False
    """Whether it runs pipelines: an older replicator would copy messages without them."""


class SqlCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The SQL of a pipeline that is about to be declared."""

    id: str
    where: str = ""
    select: str = ""
    fields: str = ""
    mirrored: bool = False

    @property
    def sql(self) -> tuple[str, str, str, bool]:
        """Return the same as `WorkPipeline.sql`."""
        return self.where, self.select, self.fields, self.mirrored


class SqlChecked(msgspec.Struct, frozen=True, kw_only=True):
    """What Spark says of the SQL of a pipeline."""

    id: str
    reason: str = ""
    """Why it is refused; empty if it is not."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All ranges to copy at the moment, for one Spark job, and the SQL to check."""

    works: tuple[Work, ...] = ()
    checks: tuple[SqlCheck, ...] = ()


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's results for receipts: how many messages each had, and which were refused."""

    taken: tuple[int, ...] = ()
    refused: tuple[str, ...] = ()
    """For each receipt why it was refused; empty if it was committed."""


_encoder = msgspec.msgpack.Encoder()


def encode(value: PlanRequest | Plan | Committed | list[Receipt] | list[SqlChecked]) -> bytes:
    """Return a value as bytes."""
    return _encoder.encode(value)


def _decoder(kind: type[T]) -> Callable[[bytes], T]:
    """Return a function that decodes a value, and raises DecodeError for all other bytes."""
    decode = msgspec.msgpack.Decoder(kind).decode

    def read(data: bytes) -> T:
        try:
            return decode(data)
        except UnicodeDecodeError as error:
            raise msgspec.DecodeError(str(error)) from None

    return read


decode_plan_request = _decoder(PlanRequest)
decode_plan = _decoder(Plan)
decode_receipts = _decoder(list[Receipt])
decode_adopted = _decoder(tuple[Adopted, ...])
decode_committed = _decoder(Committed)
decode_checked = _decoder(list[SqlChecked])

INLINE_BYTES = 256 << 10
"""A result up to this size is sent inside its receipt."""
LEAST_LINKED_BYTES = INLINE_BYTES
"""The least size of a file that a source hard-links; smaller ones are merged with their neighbours."""
EXCHANGE_BYTES = 768 << 10
"""The most bytes of a plan or a list of receipts, so that every nats-server accepts it as one message."""


def exchangeable(works: Iterable[Work]) -> list[Work]:
    """Return the first ranges, as many as a plan has room for, and at least one."""
    chosen: list[Work] = []
    size = 0
    for work in works:
        size += work.exchange_bytes
        if chosen and size > EXCHANGE_BYTES:
            break
        chosen.append(work)
    return chosen


def plan_subject(store_id: str, seat: str = "") -> str:
    """Return the subject on which a replicator asks for work, for one seat if an engine has several."""
    return ".".join(filter(None, ("$HEADWATER", store_id, "REPLICATION.PLAN", seat)))


def commit_subject(store_id: str, seat: str = "") -> str:
    """Return the subject to which a replicator sends its receipts."""
    return ".".join(filter(None, ("$HEADWATER", store_id, "REPLICATION.COMMIT", seat)))


def check_subject(store_id: str, seat: str = "") -> str:
    """Return the subject to which a replicator sends what Spark says of SQL."""
    return ".".join(filter(None, ("$HEADWATER", store_id, "REPLICATION.CHECK", seat)))


def inbox_prefix(store_id: str) -> str:
    """Return the prefix of a replicator's inboxes, whose answers other clients must not read."""
    return f"$HEADWATER.{store_id}.INBOX"
