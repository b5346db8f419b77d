"""A pipeline as it is declared, and what an engine and the runner of its pipelines exchange, as JSON.

CREATE  a client declares a pipeline: the fields of `Pipeline` without those that the engine sets
runner  reports its queries and its verdicts, and gets the pipelines and new texts to check
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from headwater.errors import Error

VERSION = 1
PIPELINE = "PIPELINE."
"""What the subjects of requests about pipelines begin with, below the prefix of the API."""
APPEND, UPDATE = "append", "update"


class PipelineRequestError(Error):
    """A request about pipelines cannot be read, or asks for something that is not possible."""


class PipelineRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client declares."""

    target: str
    sql: str = ""
    """The query; empty if a function has it."""
    function: str = ""
    """`module:function` of the operator's list; empty if there is SQL."""
    inputs: tuple[str, ...] = ()
    """The streams that are read; those of SQL are found in its text."""
    subject: str = ""
    """The subject of messages, if the query has no column of this name."""
    output: str = APPEND
    every_s: float = 1.0
    max_messages: int = 50_000
    """The most sequences that a batch reads of each stream."""
    start_seq: int = 0
    """The first sequence to read; 0 is the first message."""
    start_time: str = ""
    """Only messages stored at or after this RFC 3339 time; empty is all."""


class Pipeline(PipelineRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A declared pipeline."""

    version: int = VERSION
    name: str
    id: str
    """The id of the Spark query, a UUID; the target records its batches under it."""
    created_ns: int
    paused: bool = False
    revision: int = 1


class ReadOffset(msgspec.Struct, frozen=True):
    """The last sequence that a query has read of the stream that was created at a time."""

    seq: int
    created: str


class QueryReport(msgspec.Struct, frozen=True, kw_only=True):
    """How one query is doing."""

    id: str
    is_running: bool
    problem: str = ""
    """Why the query does not run; empty if it does."""
    batch: int = -1
    offsets: tuple[ReadOffset, ...] = ()
    """One for each time a stream is read by the query, after its last batch."""
    messages_in: int = 0
    """Messages read since the query was started."""
    rate: float = 0.0
    """Messages read per second in the last batch."""
    batch_ms: int = 0
    state_rows: int = 0
    watermark: str = ""
    starts: int = 0
    """How often the runner has started the query."""


class PipelineVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether Spark accepts a pipeline."""

    id: str
    problem: str = ""
    inputs: tuple[str, ...] = ()


class RunnerReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a runner reports."""

    version: int
    runner: str
    """A random name of the process."""
    queries: tuple[QueryReport, ...] = ()
    verdicts: tuple[PipelineVerdict, ...] = ()
    revision: int = 0
    """Of the orders that it has; the engine answers at once if there are newer ones."""


class RunnerOrders(msgspec.Struct, frozen=True, kw_only=True):
    """What the runner of an account is to run and to check."""

    version: int
    revision: int
    checkpoints: str = ""
    """The folder with the checkpoints of the account."""
    prefix: str = "$JS.API"
    """The prefix of the account's API."""
    pipelines: tuple[Pipeline, ...] = ()
    checks: tuple[Pipeline, ...] = ()


def run_subject(store_id: str, seat: str = "") -> str:
    """Return the subject on which a runner reports and gets its orders."""
    return ".".join(filter(None, ("$HEADWATER", store_id, "PIPELINES.RUN", seat)))


T = TypeVar("T", PipelineRequest, Pipeline, RunnerReport, RunnerOrders)


def decoded(kind: type[T], data: bytes) -> T:
    """Return a value of this kind; raise PipelineRequestError if the bytes are none."""
    try:
        value = msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise PipelineRequestError(f"the request cannot be read: {error}") from None
    version = getattr(value, "version", VERSION)
    if version != VERSION:
        raise PipelineRequestError(f"version {version} of pipelines is unknown, this is version {VERSION}")
    return value


def encoded(value: msgspec.Struct) -> bytes:
    """Return a value as JSON."""
    return msgspec.json.encode(value)
