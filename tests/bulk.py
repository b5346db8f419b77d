"""Bulk writes for tests: messages as rows, and the requests that write them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from doors import Asker
from headwater.wire.bulk_requests import VERSION, PartChunk, encode_chunk
from headwater.wire.bulk_rows import BulkRows

Row = tuple[str, bytes] | tuple[str, bytes, bytes]
"""Subject, data, and perhaps a header block."""


def rows_of(rows: Sequence[Row]) -> BulkRows:
    """Return messages as the columns of a chunk."""
    subjects = sorted({row[0].encode() for row in rows})
    headers = [row[2] if len(row) > 2 else b"" for row in rows]
    return BulkRows(
        subjects,
        np.array([subjects.index(row[0].encode()) for row in rows], np.uint32),
        np.array([len(each) for each in headers], np.uint32),
        b"".join(headers),
        np.array([len(row[1]) for row in rows], np.uint32),
        b"".join(row[1] for row in rows),
    )


class BulkAsker:
    """A client that writes to one stream in bulk."""

    def __init__(self, asker: Asker, stream: str) -> None:
        self._asker = asker
        self._subject = f"{asker.prefix}.STREAM.WRITE.{stream}"

    async def chunk(
        self, write: str, rows: Sequence[Row], part: str = "p", index: int = 0, *, last: bool = True
    ) -> dict[str, Any]:
        """Return the answer to one chunk."""
        return await self.raw_chunk(PartChunk(VERSION, write, part, index, last, rows_of(rows).encode()))

    async def raw_chunk(self, chunk: PartChunk) -> dict[str, Any]:
        """Return the answer to a chunk with any content."""
        return await self.ask("PART", encode_chunk(chunk))

    async def commit(
        self, write: str, batch: int, parts: Sequence[str], messages: int, query: str = "q", **more: Any
    ) -> dict[str, Any]:
        """Return the answer to a commit."""
        body = {
            "version": VERSION,
            "write": write,
            "query": query,
            "batch": batch,
            "parts": list(parts),
            "messages": messages,
            **more,
        }
        return await self.ask("COMMIT", json.dumps(body).encode())

    async def put(self, write: str, batch: int, rows: Sequence[Row], query: str = "q") -> dict[str, Any]:
        """Return the answer to a commit of these messages."""
        answer = await self.chunk(write, rows)
        if "error" in answer:
            return answer
        return await self.commit(write, batch, ["p"], len(rows), query)

    async def ask(self, verb: str, body: bytes) -> dict[str, Any]:
        """Return the answer to a request."""
        answer: dict[str, Any] = json.loads((await self._asker.raw(f"{self._subject}.{verb}", body))[3])
        return answer
