"""The requests of a bulk write, below `STREAM.WRITE.<stream>` of the API.

    PART    messagepack: one chunk of the messages that one task writes
    COMMIT  JSON: store everything of these parts as one change, once for each query and batch
    ABORT   JSON: forget the write
    LAST    JSON: which batch of a query was stored last

Answers are JSON, as all answers of the API.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from headwater.errors import Error

VERSION = 1
WRITE = "STREAM.WRITE."
"""What the subjects of these requests begin with, below the prefix of the API."""
OFFERED_TO = "Headwater-Write"
"""The header with which a request for a stream's info asks how to write to it."""
MOST_NAME = 128
MOST_PARTS = 10_000
MOST_NUMBER = (1 << 62) - 1


class BulkRequestError(Error):
    """A request of a bulk write cannot be read."""


class PartChunk(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """One chunk of a part; chunks are numbered from 0 and arrive in order."""

    version: int
    write: str
    """The client's name for this write, random."""
    part: str
    """The name of the part, another one for each attempt of a task."""
    index: int
    is_last: bool
    rows: bytes


class BulkCommit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Asks for all messages of some parts to be stored as one change."""

    version: int
    write: str
    query: str
    """Who writes: of the same query each batch is stored once."""
    batch: int
    parts: list[str]
    messages: int
    """How many messages the parts have in all."""
    once: bool = False
    """Whether the query has this one batch only."""
    created: str = ""
    """When the stream was created, as its info says: nothing is stored in a re-created one. Empty: any."""


class BulkAbort(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Asks for a write to be forgotten."""

    version: int
    write: str


class BulkLast(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Asks for the last batch of a query."""

    version: int
    query: str


T = TypeVar("T", PartChunk, BulkCommit, BulkAbort, BulkLast)
_chunk_encoder = msgspec.msgpack.Encoder()
_chunks = msgspec.msgpack.Decoder(PartChunk)
_commits = msgspec.json.Decoder(BulkCommit)
_aborts = msgspec.json.Decoder(BulkAbort)
_lasts = msgspec.json.Decoder(BulkLast)


def encode_chunk(chunk: PartChunk) -> bytes:
    """Return a chunk as the body of a request."""
    return _chunk_encoder.encode(chunk)


def decode_chunk(body: bytes) -> PartChunk:
    """Return the chunk of a request."""
    chunk = _decoded(_chunks, body)
    _require_names(chunk.write, chunk.part)
    _require_number(chunk.index)
    return chunk


def decode_commit(body: bytes) -> BulkCommit:
    """Return a request for a commit."""
    commit = _decoded(_commits, body)
    if len(commit.parts) > MOST_PARTS or len(set(commit.parts)) != len(commit.parts):
        raise BulkRequestError(f"a write has at most {MOST_PARTS} parts, each once")
    _require_names(commit.write, commit.query, *commit.parts)
    _require_number(commit.batch)
    return commit


def decode_abort(body: bytes) -> BulkAbort:
    """Return a request to forget a write."""
    abort = _decoded(_aborts, body)
    _require_names(abort.write)
    return abort


def decode_last(body: bytes) -> BulkLast:
    """Return a request for the last batch of a query."""
    last = _decoded(_lasts, body)
    _require_names(last.query)
    return last


def _decoded(decoder: msgspec.msgpack.Decoder[T] | msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        found = decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BulkRequestError(f"cannot decode the request: {error}") from None
    if found.version != VERSION:
        raise BulkRequestError(f"a request of version {found.version}, this engine answers {VERSION}")
    return found


def _require_names(*names: str) -> None:
    for name in names:
        if not (0 < len(name) <= MOST_NAME and name.isascii() and name.isprintable() and " " not in name):
            raise BulkRequestError(f"{name[:MOST_NAME]!r} is not a name")


def _require_number(number: int) -> None:
    if not 0 <= number <= MOST_NUMBER:
        raise BulkRequestError(f"{number} is out of range")
