"""Requests of bulk writes are decoded strictly: any client may have sent them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from headwater.wire.bulk_requests import (
    MOST_NAME,
    MOST_PARTS,
    VERSION,
    BulkRequestError,
    PartChunk,
    decode_abort,
    decode_chunk,
    decode_commit,
    encode_chunk,
)

COMMIT: dict[str, Any] = {
    "version": VERSION,
    "write": "w",
    "query": "q",
    "batch": 3,
    "parts": ["a", "b"],
    "messages": 5,
}


def test_a_chunk_is_read_as_it_was_encoded() -> None:
    chunk = PartChunk(VERSION, "w", "part-1", 2, True, b"rows")
    assert decode_chunk(encode_chunk(chunk)) == chunk


@pytest.mark.parametrize("name", ["", "a b", "ä", "a\n", "x" * (MOST_NAME + 1)])
def test_names_are_short_and_plain(name: str) -> None:
    with pytest.raises(BulkRequestError, match="not a name"):
        decode_chunk(encode_chunk(PartChunk(VERSION, name, "p", 0, True, b"")))
    with pytest.raises(BulkRequestError, match="not a name"):
        decode_chunk(encode_chunk(PartChunk(VERSION, "w", name, 0, True, b"")))
    with pytest.raises(BulkRequestError, match="not a name"):
        decode_commit(json.dumps(COMMIT | {"query": name}).encode())
    with pytest.raises(BulkRequestError, match="not a name"):
        decode_abort(json.dumps({"version": VERSION, "write": name}).encode())


def test_a_commit_is_decoded_with_its_default() -> None:
    commit = decode_commit(json.dumps(COMMIT).encode())
    assert (commit.query, commit.batch, commit.parts, commit.once) == ("q", 3, ["a", "b"], False)


@pytest.mark.parametrize(
    "change",
    [
        {"version": VERSION + 1},
        {"batch": -1},
        {"batch": 1 << 63},
        {"parts": ["a", "a"]},
        {"parts": [str(number) for number in range(MOST_PARTS + 1)]},
        {"parts": "a"},
        {"path": "/etc/passwd"},
    ],
)
def test_other_commits_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(BulkRequestError):
        decode_commit(json.dumps(COMMIT | change).encode())


def test_bytes_of_anything_else_are_refused() -> None:
    for body in (b"", b"{}", b"[]", b"\xc1", msgspec.msgpack.encode([VERSION, "w", "p", -1, True, b""])):
        with pytest.raises(BulkRequestError):
            decode_chunk(body)
    for decode in (decode_commit, decode_abort):
        with pytest.raises(BulkRequestError):
            decode(b"[" * 100_000)


def test_text_that_is_not_utf_8_is_refused() -> None:
    chunk = encode_chunk(PartChunk(VERSION, "w~~~", "p", 0, True, b""))
    with pytest.raises(BulkRequestError, match="cannot decode"):
        decode_chunk(chunk.replace(b"~~~", b"\xff\xfe\xfd"))
    with pytest.raises(BulkRequestError, match="cannot decode"):
        decode_abort(b'{"version": 1, "write": "\xff"}')
