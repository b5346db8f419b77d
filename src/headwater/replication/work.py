"""What the engine asks a transfer task to do, and what the task gives back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from headwater.model.adopted import Adopted
from headwater.model.copied import Copied

T = TypeVar("T")


class FileRange(msgspec.Struct, frozen=True, array_like=True):
    """A file of the origin's table whose rows may be wanted."""

    path: str
    base_seq: int
    first_seq: int
    last_seq: int
    copied: Copied | None = None
    """What its messages have beside that, where the origin took it from an origin of its own."""
    headerless: bool = False
    """Whether the table says that no message in the file has headers of its own."""

    @property
    def exchange_bytes(self) -> int:
        """Return about how much of a plan it takes, rather too much."""
        told = 64 + len(self.copied.source) + len(self.copied.source_id) if self.copied else 0
        return 64 + len(self.path.encode()) + told


class NatsOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """An origin that is read through its API."""

    api_prefix: str
    stream: str
    config: str = ""
    """The settings file that says where the server is and who we are there; no secret stands in a plan."""
    seat: str = ""
    """The seat of that file, by its folder."""
    deliver: str = ""
    """Prefix of the subjects that the origin's account delivers to for others; none is our own inbox."""
    servers: tuple[str, ...] = ()
    """Where there is no such file; who we are stands beside it then."""
    identity: str = ""
    """Of the stream that was planned on, as `hash8` of its creation; where it is empty, any will do."""
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
    """Where it is another, messages leave the origin when they are acknowledged on its consumer."""
    durable: str = ""
    """That consumer's name."""
    covered_seq: int = 0
    """How far it is copied already."""
    covered_ts: int = 0
    """The latest time of that: what has a later one up to there was not copied. 0 if it is not known."""
    stop_ts: int = 0
    """The time of the message that the range ends with, 0 if it is not known."""
    rewinds: bool = False
    """Whether it owes acknowledgements that nobody remembers, so that all of it must be delivered again."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """One range of one origin to be copied for one target.

    The messages are the live rows of `files`, then those of `tail`, or what `origin` answers; all of them
    from `start_seq` to `stop_seq`.
    """

    id: str
    target: str
    upstream: str
    expected: bytes
    """The target's cursor as the engine knows it; the receipt carries it back."""
    start_seq: int
    stop_seq: int
    files: tuple[FileRange, ...] = ()
    read_bytes: int = 0
    """About how much of them is read."""
    removed: bytes = b""
    """Serialized BitMap64 of the sequences in the files that hold no message any more."""
    tail: bytes = b""
    """Messages that are not in a file yet, as `wire.column_bytes`."""
    origin: NatsOrigin | None = None
    mirrored: bool = False
    filters: tuple[str, ...] = ()
    """Subjects that are wanted; none means all."""
    transforms: tuple[tuple[str, str], ...] = ()
    """The first pair whose source takes a subject rewrites it; where there are some, no other is wanted."""
    stream_transform: tuple[str, str] | None = None
    """What the target does with every subject, after that."""
    source_header: tuple[str, str, str, str] | None = None
    """For a source: first part of the index name, filters, destinations, identity of the origin."""
    staging: str = ""
    """Directory for a result that is too large for the receipt."""
    compression: str = "none"
    """How the target compresses its files."""
    linkable: bool = False
    """Whether the origin's files are compressed as the target's are, so that they can be the target's."""
    traceable: bool = False
    """Whether the target's table can tell of a file where its messages came from, and when."""
    adoptive: bool = False
    """Whether the target can take a staged file as it is; then a source's file is numbered from 0 again."""
    adoptive_without_ids: bool = False
    """Whether it can if no message in it carries a `Nats-Msg-Id`. Older tasks do not know this field."""

    @property
    def exchange_bytes(self) -> int:
        """Return about how much of a plan it takes."""
        files = sum(file.exchange_bytes for file in self.files)
        return len(self.tail) + len(self.removed) + files + 1000


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a piece of work: messages in a staged file or here, or the reason why there are none."""

    work: str
    target: str
    upstream: str
    expected: bytes
    through: int = 0
    """The origin's sequence up to which everything wanted is in the result."""
    ts: int = 0
    """The latest time of everything up to there, as the origin says; 0 where it is not known."""
    rows: int = 0
    data: bytes = b""
    """The messages as `wire.column_bytes`, sequences and times those of the origin."""
    path: str = ""
    """A staged Parquet file by its name, in the table's own form with base 0, instead of `data`."""
    adopted: tuple[Adopted, ...] = ()
    """Staged files with the sums over them, instead of both, for a target that takes them as they are."""
    sums: str = ""
    """A staged file by its name that holds the same where it would be too long."""
    linked_bytes: int = 0
    """How long those of them are that were not read, but linked."""
    without_ids: bool = False
    """Whether it is proven that no message of these files carries a `Nats-Msg-Id`."""
    settled: bytes = b""
    """Serialized BitMap64 of the origin's sequences to be acknowledged there once this is committed."""
    ack_key: str = ""
    """What the subjects of these acknowledgements begin with."""
    error: str = ""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a replicator says when it asks for a plan."""

    name: str
    """Its own for as long as it runs; one that is started anew has another."""
    under_way: tuple[str, ...] = ()
    """Works that it has been given and is still busy with."""
    slots: int = 2
    """How many of its tasks run at once."""
    task_bytes: int = 0
    """How much one of them may read at the most, so that others need not wait long; 0 if unknown."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All that there is to copy at the moment, for one Spark job."""

    works: tuple[Work, ...] = ()


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's word on receipts: how many messages each brought, and which were refused."""

    taken: tuple[int, ...] = ()
    refused: tuple[str, ...] = ()
    """For each receipt why it was not taken, empty if it was."""


_encoder = msgspec.msgpack.Encoder()


def encode(value: Question | Plan | Committed | list[Receipt]) -> bytes:
    """Return a value as bytes."""
    return _encoder.encode(value)


def _decoder(kind: type[T]) -> Callable[[bytes], T]:
    """Return what reads a value, and raises DecodeError for all other bytes, broken texts included."""
    decode = msgspec.msgpack.Decoder(kind).decode

    def read(data: bytes) -> T:
        try:
            return decode(data)
        except UnicodeDecodeError as error:
            raise msgspec.DecodeError(str(error)) from None

    return read


decode_question = _decoder(Question)
decode_plan = _decoder(Plan)
decode_receipts = _decoder(list[Receipt])
decode_adopted = _decoder(tuple[Adopted, ...])
decode_committed = _decoder(Committed)

INLINE_BYTES = 256 << 10
"""A result up to this size travels in its receipt."""
LEAST_LINKED_BYTES = INLINE_BYTES
"""How large a file is at the least that a source takes as it is: less is joined with its neighbours."""
EXCHANGE_BYTES = 768 << 10
"""A plan or a list of receipts stays below this size, which every nats-server takes in one message."""


def plan_subject(store_id: str, seat: str = "") -> str:
    """Return where a replicator asks for work, of one seat where an engine has several."""
    return ".".join(filter(None, ("$HEADWATER", store_id, "REPLICATION.PLAN", seat)))


def commit_subject(store_id: str, seat: str = "") -> str:
    """Return where a replicator hands in its receipts."""
    return ".".join(filter(None, ("$HEADWATER", store_id, "REPLICATION.COMMIT", seat)))


def inbox_prefix(store_id: str) -> str:
    """Return below which subjects a replicator takes answers: they hold messages, and are not for others."""
    return f"$HEADWATER.{store_id}.INBOX"
